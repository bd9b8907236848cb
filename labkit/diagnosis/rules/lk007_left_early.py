"""LK007 left-early."""

from __future__ import annotations

from ...calls import route, site_key
from ...errors import count, join_ranks
from ...places import cell_name
from ...vocabulary import Standing
from ...wire import Call, Verdict
from .. import ways, words
from ..alignment import Alignment
from ..gates import came_first, decider, leaving
from ..roots import right_on_the_root_alone
from ..rule import Rule, rule
from ..source import in_loop, unconditional


@rule
class LeftEarly(Rule):
    """A rank finished its cell with fewer calls than the others, who wait for it.

    What: The rank's cell ended well; the others are in a collective that it never makes.
    Why: It had one batch less, broke out of a loop, or took a branch without the call.
    Evidence: The rank is idle after a cell without error, its calls are the beginning of the others' calls, and
    the others, who are more, wait in the next one. With two ranks the source decides, or both are named.
    Remedy: Give every rank the same number of steps, or let all ranks agree before each step.
    """

    code = "LK007"
    name = "left-early"
    title = "A rank finished before the others"

    def claim(self, world: Alignment) -> Verdict | None:
        gone = world.absent(Standing.FINISHED)
        if gone and world.algorithm:
            return self._left_schedule(world, gone)
        found = words.main_wait(world, (rank for rank in world.waiting_for(gone) if not world.waits[rank].call.p2p))
        if found is None:
            return None
        waiters, call = found
        live = any(world.waits[rank].live for rank in waiters)
        sure = len(waiters) > len(gone) or (len(call.path) == 1 and unconditional(world.evidence, call.site))
        cell = cell_name(world.focus)
        threads = words.thread_sides(world, gone)
        thread = f"; {join_ranks(threads[0].ranks)}: {threads[0].did}{words.at(threads[0].site)}" if threads else ""
        return self.say(
            world,
            f"{words.verb(gone, 'has', 'have')} finished {cell} without {words.named(call)}, in which "
            f"{words.verb(waiters, *(('waits', 'wait') if live else ('waited', 'waited')))}{words.at(call.site)}{thread}"
            f"{'' if threads else _passes(world, gone[0], waiters[0], call)}",
            gone if sure else tuple(sorted((*gone, *waiters))),
            sides=(words.side(world.evidence, gone, f"finished {cell}", None), *threads, *words.wait_sides(world, waiters)),
            fix="Fix the line that raised in the thread: its calls were not made" if threads else _fix(world, gone[0], call),
            facts=(_counts(world, call.group), *words.last_calls(world, gone)),
        )

    def _left_schedule(self, world: Alignment, gone: tuple[int, ...]) -> Verdict | None:
        if world.waits and not world.stalled(tuple(world.waits)):
            return None
        text = " and ".join(f"rank {rank} left the schedule{words.at_step(world, rank)}" for rank in gone)
        side = words.side(world.evidence, gone, f"left {world.algorithm}", None)
        return self.say(
            world,
            text + words.wait_in_schedule(world, gone, before="; "),
            gone,
            sides=(side, *words.wait_sides(world, world.waits)),
            fix="Let every rank make all moves of its program",
            facts=words.last_calls(world, gone),
        )


def _passes(world: Alignment, gone: int, waiter: int, call: Call) -> str:
    """How often both made this call, where it is made again and again: which one was left out can't be told by its place."""
    track, key = world.tracks.get(call.group), site_key(call)
    if track is None or key is None:
        return ""
    fewer, more = (sum(site_key(each) == key for each in track.line(rank)) for rank in (gone, waiter))
    if not 0 < fewer < more or not (len(call.path) > 1 or in_loop(world.evidence, call.site)):
        return ""
    way = f" by way of {route(call.path)}" if len(call.path) > 1 else ""
    return (
        f". Rank {gone} made this call {count(fewer, 'time')}{way}, rank {waiter} {count(more, 'time')}; unless the last one is "
        "missing, the results since the missing one are mixed up"
    )


def _fix(world: Alignment, gone: int, call: Call) -> str:
    seen = _see(world, call)
    branch = "" if seen else _branch(world, gone, call)
    calls = "Let every rank make the same number of calls: same steps, no break on one rank only"
    fix = f"Call it on every rank, or on none: {branch}" if branch else f"{calls}; {seen}" if seen else calls
    return "; ".join(filter(None, (fix, right_on_the_root_alone(world, seen or branch, call))))


def _branch(world: Alignment, gone: int, call: Call) -> str:
    """The branch or loop that leads to the call, seen from where the other rank was last."""
    track = world.tracks.get(call.group)
    last = track.line(gone)[-1:] if track is not None else []
    at = ways.depth(call, last[0]) if last else 0
    return decider(world.evidence, call.path[at:], call.name, last[0].path[at] if last and at < len(last[0].path) else None)


def _see(world: Alignment, call: Call) -> str:
    for frame in reversed(call.path):
        if seen := leaving(world.evidence, frame) or came_first(world.evidence, frame):
            return seen
    return ""


def _counts(world: Alignment, group: str) -> str:
    track = world.tracks.get(group)
    if track is None:
        return f"it is a group that is made in {cell_name(world.focus)}"
    counts = ", ".join(f"rank {rank}: {len(track.line(rank))}" for rank in track.members if rank in world.views)
    return f"calls in {cell_name(world.focus)}: {counts}"
