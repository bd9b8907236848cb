"""Ranks that have not come.

LK001 rank-died, LK002 rank-stopped, LK003 rank-raised, LK007 left-early, LK012 not-everyone-was-sent.
"""

from __future__ import annotations

import signal

from ...backends import find
from ...calls import Aspect
from ...errors import join_ranks
from ...vocabulary import Ending, Standing
from ...wire import CodeError, RankView, Side, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule
from ..source import unconditional


@rule
class RankDied(Rule):
    """A rank's process has exited.

    What: The operating system no longer has the rank's process; whatever waits for it waits for good.
    Why: It was killed (often because memory ran out), crashed in native code, or called exit().
    Evidence: The process ended by a signal or with an exit code. Not claimed when the rank's last call differs from the
    others' calls of the same number, or if a move of a schedule was left out or made twice: then that is the cause.
    Remedy: Find out what ended it. Recovery starts a new process for that rank; the rank's variables are lost,
    those of the others are kept.
    """

    code = "LK001"
    name = "rank-died"
    title = "A rank's process has exited"
    independent = True

    def claim(self, world: Alignment) -> Verdict | None:
        dead = tuple(rank for rank in world.ranks_in(Standing.DEAD) if not _killed_by_mismatch(world, rank))
        if not dead:
            return None
        ways = {rank: way_of_death(world.views[rank]) for rank in dead}
        text = " and ".join(f"rank {rank} died ({ways[rank]}){words.at_step(world, rank)}" for rank in dead)
        if world.algorithm:
            text += words.wait_in_schedule(world, dead, before="; ")
        elif waiting := words.wait_text(world, world.waits):
            text += f" while {waiting}"
        elif len(dead) == 1:
            text += f"; {words.last_call(world, dead[0])}"
        return self.say(
            world,
            text,
            dead,
            sides=tuple(_side(world, rank, ways[rank]) for rank in dead) + words.wait_sides(world, world.waits),
            next_step=f"{_advice(ways)} world.recover() starts {join_ranks(dead)} again; the variables of the others are kept.",
            facts=words.last_calls(world, dead),
            ending=Ending.ABORT,
        )


def _side(world: Alignment, rank: int, way: str) -> Side:
    calls = [call for call in world.calls[rank] if call.cell == world.evidence.cell]  # an older line is not where it died
    return words.side(world.evidence, (rank,), f"died ({way})", calls[-1].site if calls else None)


def _killed_by_mismatch(world: Alignment, rank: int) -> bool:
    """The rank's last call in the group is where the calls differ."""
    other_message = world.slip is not None or (world.altered is not None and world.altered.kind == "size")
    aborted = world.views[rank].exit_code == -signal.SIGABRT and find(world.evidence.backend).aborts_on_long_message
    if other_message and aborted:
        return True
    found = world.disagreement
    if found is None or rank not in found.column or found.aspect is Aspect.ROOT:
        return False
    return found.aspect is Aspect.SIZE or found.track.line(rank)[-1].seq == found.seq


def way_of_death(view: RankView) -> str:
    """How a process ended: "killed by SIGKILL", "exit code 3".

    >>> way_of_death(RankView(0, exit_code=-9)), way_of_death(RankView(0, exit_code=3))
    ('killed by SIGKILL', 'exit code 3')
    """
    code = view.exit_code
    if code is None:
        return "its process has exited"
    number = -code if code < 0 else code - 128
    if number > 0:
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"exit code {code}"


def _advice(ways: dict[int, str]) -> str:
    text = " ".join(ways.values())
    if "SIGKILL" in text:
        return "SIGKILL comes from outside, often because the machine is out of memory: use less memory on that rank."
    if "SIGABRT" in text:
        return (
            "gloo ends a process that is sent more than its buffer holds, so the wrong size may be another rank's: "
            "compare what every rank gives to that call (sizes, dtypes, splits)."
        )
    if "exit code" in text:
        return "Do not call exit() in a cell: the process is the rank."
    return "Look in that rank's output for what crashed."


@rule
class RankStopped(Rule):
    """A rank's process is stopped.

    What: The process is alive but does not run: it is stopped, as by SIGSTOP.
    Why: Someone sent SIGSTOP, a debugger holds it, or a batch system has suspended the job.
    Evidence: The operating system reports the process as stopped.
    Remedy: SIGCONT lets it continue where it was; recovery sends that, or replaces the rank.
    """

    code = "LK002"
    name = "rank-stopped"
    title = "A rank's process is stopped"
    independent = True
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        stopped = world.ranks_in(Standing.STOPPED)
        if not stopped:
            return None
        text = f"{words.verb(stopped, 'is', 'are')} stopped (SIGSTOP)"
        if world.algorithm:
            text += " and".join(words.at_step(world, rank) for rank in stopped)
            text += words.wait_in_schedule(world, stopped, before="; ")
        elif waiting := words.wait_text(world, world.waits):
            text += f" while {waiting}"
        elif len(stopped) == 1:
            text += f"; {words.last_call(world, stopped[0])}"
        sides = tuple(words.side(world.evidence, (rank,), "is stopped", None) for rank in stopped)
        return self.say(
            world,
            text,
            stopped,
            sides=sides + words.wait_sides(world, world.waits),
            next_step=f"SIGCONT lets {join_ranks(stopped)} continue; world.recover() sends it, or starts the rank again.",
            facts=words.last_calls(world, stopped),
        )


@rule
class RankRaised(Rule):
    """A rank's code raised an exception, and others wait for that rank.

    What: One rank left its cell with an exception of its own; the others are in a collective that it never reached.
    Why: In a notebook the process lives on after an exception, so nothing tells the other ranks.
    Evidence: The rank is alive and idle, other ranks wait for it, and its cell ended with an exception of its own: not
    one that another rank's fault causes (a closed connection, a timeout, an interrupt).
    Remedy: Fix the line that raised; where an error must be survived, let all ranks agree on it first.
    """

    code = "LK003"
    name = "rank-raised"
    title = "A rank raised an exception while others wait for it"

    def claim(self, world: Alignment) -> Verdict | None:
        ranks = world.absent(Standing.RAISED)
        if not ranks:
            return None
        errors = {rank: world.views[rank].error or CodeError("Exception", "") for rank in ranks}
        where = {rank: words.at(errors[rank].site) + words.at_step(world, rank) for rank in ranks}
        text = " and ".join(f"rank {rank} raised {errors[rank].type}{where[rank]}" for rank in ranks)
        in_schedule = words.wait_in_schedule(world, ranks, before="; ")
        sides = tuple(words.side(world.evidence, (r,), f"raised {error.type}", error.site) for r, error in errors.items())
        return self.say(
            world,
            text + (in_schedule if world.algorithm else f" and {words.wait_text(world, world.waits)}"),
            ranks,
            sides=sides + words.wait_sides(world, world.waits),
            fix="Fix the line that raised; the other ranks only wait for that rank",
            facts=tuple(f"rank {rank}: {error}" for rank, error in errors.items()),
        )


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
        sure = len(waiters) > len(gone) or unconditional(world.evidence, call.site)
        cell = f"cell {world.focus}"
        return self.say(
            world,
            f"{words.verb(gone, 'has', 'have')} finished {cell} without {words.named(call)}, in which "
            f"{words.verb(waiters, *(('waits', 'wait') if live else ('waited', 'waited')))}{words.at(call.site)}",
            gone if sure else tuple(sorted((*gone, *waiters))),
            sides=(words.side(world.evidence, gone, f"finished {cell}", None), *words.wait_sides(world, waiters)),
            fix="Let every rank make the same number of calls: same steps, no break on one rank only",
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


def _counts(world: Alignment, group: str) -> str:
    track = world.tracks[group]
    counts = ", ".join(f"rank {rank}: {len(track.line(rank))}" for rank in track.members if rank in world.views)
    return f"calls in cell {world.focus}: {counts}"


@rule
class NotEveryoneWasSent(Rule):
    """A cell that was sent to some ranks makes a call that needs others too.

    What: Ranks wait in a call for ranks that were never asked to run this cell.
    Why: `%%ranks 0,1` around a collective of the whole world.
    Evidence: The missing ranks are not among the cell's targets; for an older cell, they have made no call in it.
    Remedy: Send the cell to every rank of the group, or use a group of just those ranks.
    """

    code = "LK012"
    name = "not-everyone-was-sent"
    title = "Not every rank was sent this cell"

    def claim(self, world: Alignment) -> Verdict | None:
        ranks, waits = world.absent(Standing.UNASKED), words.main_wait(world, world.waits)
        if not ranks or waits is None:
            return None
        targets = world.evidence.targets if world.focus == world.evidence.cell else ()
        if targets:
            why = f"but cell {world.focus} was sent only to {join_ranks(targets)}"
        else:
            why = f"but {words.verb(ranks, 'has', 'have')} not run cell {world.focus}"
        return self.say(
            world,
            f"{words.in_call(world, *waits)}, which needs {join_ranks(ranks)} too, {why}",
            ranks,
            sides=(*words.wait_sides(world, world.waits), words.side(world.evidence, ranks, "was not sent the cell", None)),
            fix="Send the cell to every rank of the process group, or make a group of these ranks",
        )
