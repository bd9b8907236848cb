"""The phrases that verdicts are made of, so that all rules speak alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import join_ranks
from ..units import format_seconds
from ..wire import Call, CallSite, Evidence, Side
from .alignment import Alignment
from .compare import by_majority

RECOVER = "world.recover() brings the ranks back."
SAME_ORDER = "Let every rank call the collectives in the same order"


def named(call: Call) -> str:
    """A call by name and number, with its group if that is not the world, or its peer.

    >>> named(Call(1, 2, "all_reduce", group="tp")), named(Call(1, 0, "recv", root=3))
    ('all_reduce #2 of group tp', 'recv from rank 3')
    """
    if call.p2p:
        peer = f"rank {call.root}" if call.root >= 0 else "any rank"
        return f"{call.op} {'to' if 'send' in call.op else 'from'} {peer}"
    return f"{call}" if call.group == "world" else f"{call} of group {call.group}"


def spot(site: CallSite | None) -> str:
    """The place in brackets, or nothing if it is not known."""
    return f" ({site})" if site is not None else ""


def placed(call: Call) -> str:
    """A call with its place: "all_reduce #5 (cell 7, line 2)", "recv from rank 1 (step 2 of ring)"."""
    return named(call) + (f" ({step_of(call)})" if call.algorithm else spot(call.site))


def step_of(call: Call) -> str:
    """A move's place in its schedule.

    >>> step_of(Call(1, 0, "recv", algorithm="ring", step=2))
    'step 2 of ring'
    """
    return f"step {call.step} of {call.algorithm}"


def at_step(world: Alignment, rank: int) -> str:
    """Where in the schedule a rank is, with a space before it: " in step 2 of ring"; "" where no schedule is run."""
    if not world.algorithm:
        return ""
    calls = world.calls[rank]
    if not calls:
        return f" before its first step of {world.algorithm}"
    return f" {'after' if calls[-1].state == 'done' else 'in'} {step_of(calls[-1])}"


def held_up(world: Alignment, culprits: Iterable[int], before: str = "") -> str:
    """Who waits in a schedule, a clause with `before` it; "" if nobody does."""
    culprits = set(culprits)
    others = [wait for rank, wait in world.waits.items() if rank not in culprits]
    first = [wait for wait in others if wait.call.root in culprits]
    rest = tuple(wait.rank for wait in others if wait not in first)
    live = any(wait.live for wait in others)
    said = []
    one = len(culprits) == 1
    kinds = ((False, "for its message" if one else "for their messages"), (True, f"to send to {'it' if one else 'them'}"))
    for sends, what in kinds:
        ranks = tuple(wait.rank for wait in first if ("send" in wait.call.op) is sends)
        if ranks:
            verb = do(ranks, "waits", "wait") if live else f"{join_ranks(ranks)} waited"
            steps = {wait.call.step for wait in first if wait.rank in ranks}
            where = f" in step {steps.pop()}" if len(steps) == 1 else ""
            said.append(f"{verb} {what}{where}")
    if rest:
        verb = do(rest, "waits", "wait") if live else f"{join_ranks(rest)} waited"
        said.append(f"{verb} in turn" if first else f"{verb} too" if culprits & set(world.waits) else verb)
    return before + ", and ".join(said) if said else ""


def sized(call: Call) -> str:
    """A call's tensor: "shape (2, 3), float32"."""
    return f"shape {tuple(call.shape)}" + (f", {call.dtype}" if call.dtype else "")


def do(ranks: Iterable[int], one: str, many: str) -> str:
    """Ranks with their verb.

    >>> do([2], "waits", "wait"), do([0, 1], "waits", "wait")
    ('rank 2 waits', 'ranks 0 and 1 wait')
    """
    ranks = tuple(ranks)
    return f"{join_ranks(ranks)} {one if len(ranks) == 1 else many}"


def in_call(world: Alignment, ranks: tuple[int, ...], call: Call) -> str:
    """Ranks and their call: "wait in" while they do, "waited in" when that is over, "called" where nobody waits."""
    waits = [world.waits[rank] for rank in ranks if rank in world.waits and world.waits[rank].call.index == call.index]
    waits = waits or [world.waits[rank] for rank in ranks if rank in world.waits and _same(world.waits[rank].call, call)]
    if not waits or call.state == "refused":
        return f"{join_ranks(ranks)} called {placed(call)}"
    verb = do(ranks, "waits", "wait") if any(wait.live for wait in waits) else f"{join_ranks(ranks)} waited"
    return f"{verb} in {placed(call)}"


def _same(one: Call, two: Call) -> bool:
    return (one.group, one.seq, one.op) == (two.group, two.seq, two.op)


def main_wait(world: Alignment, ranks: Iterable[int]) -> tuple[tuple[int, ...], Call] | None:
    """Of these ranks' waits, the call that most are in, and who."""
    calls: dict[tuple[str, int, str], list[int]] = {}
    for rank in ranks:
        if rank in world.waits:
            call = world.waits[rank].call
            calls.setdefault((call.group, call.seq, call.op), []).append(rank)
    if not calls:
        return None
    most = by_majority(calls.values())[0]
    return most, world.waits[most[0]].call


def wait_text(world: Alignment, ranks: Iterable[int]) -> str:
    """Of these ranks, those who wait and in what, or nothing."""
    found = main_wait(world, ranks)
    return in_call(world, *found) if found else ""


def side(evidence: Evidence, ranks: tuple[int, ...], did: str, site: CallSite | None) -> Side:
    """One side of a verdict, with its source line quoted."""
    return Side(tuple(sorted(ranks)), did, site, evidence.source_line(site))


def call_side(world: Alignment, ranks: tuple[int, ...], call: Call) -> Side:
    """The side of ranks that are or were in a call."""
    word = in_call(world, ranks, call).removeprefix(join_ranks(ranks)).strip()
    return side(world.evidence, ranks, word.removesuffix(spot(call.site)), call.site)


def wait_sides(world: Alignment, ranks: Iterable[int]) -> tuple[Side, ...]:
    """A side for every call that some of these ranks wait in."""
    found: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        if rank in world.waits:
            call = world.waits[rank].call
            found.setdefault((named(call), spot(call.site)), []).append(rank)
    return tuple(call_side(world, tuple(mine), world.waits[mine[0]].call) for mine in found.values())


def last_call(world: Alignment, rank: int) -> str:
    """A clause: its last call was all_reduce #4 (cell 7, line 2)."""
    calls = world.calls[rank]
    return f"its last call was {placed(calls[-1])}" if calls else "it has made no call"


def last_calls(world: Alignment, ranks: Iterable[int]) -> tuple[str, ...]:
    """A fact per rank: where it was last seen."""
    return tuple(f"rank {rank}: {last_call(world, rank)}" for rank in ranks)


def wait_facts(world: Alignment) -> tuple[str, ...]:
    """How long the others have waited, and what ended it if it is over."""
    facts = []
    live = tuple(rank for rank, wait in world.waits.items() if wait.live)
    if live:
        facts.append(f"{do(live, 'has waited', 'have waited')} for {format_seconds(world.waited_s(live))}")
    refused = tuple(rank for rank, wait in world.waits.items() if not wait.live and wait.call.state == "refused")
    if refused:
        facts.append("safe mode refused the call before it was issued")
    cut = tuple(rank for rank, wait in world.waits.items() if not wait.live and rank not in refused)
    if cut:
        facts.append(f"{join_ranks(cut)} waited for {format_seconds(world.waited_s(cut))}, then the wait was ended")
    return tuple(facts)


def now(world: Alignment) -> str:
    """What to do now, after the code is mended."""
    if any(wait.call.state == "refused" for wait in world.waits.values()) and not any(w.live for w in world.waits.values()):
        return "Nothing was issued, so the world is well: mend the cell and run it again."
    if world.waits or world.stand("dead", "stopped"):
        return RECOVER
    return f"Then run the {'schedule' if world.algorithm else 'cell'} again: its numbers are wrong."


def ending(world: Alignment, column: Mapping[int, Call]) -> str:
    """What the learner sees of a mismatch at these calls."""
    if any(world.standing(rank) == "dead" for rank in column):
        return "abort"
    if any(call.state == "refused" for call in column.values()):
        return "error"
    if not world.waits:
        return "silent"
    quick = all(not wait.live and wait.call.returned_s - wait.call.issued_s < 0.3 for wait in world.waits.values())
    return "error" if quick else "hang"


def call_of(column: Mapping[int, Call], ranks: tuple[int, ...]) -> Call:
    """The call that stands for a side."""
    return column[ranks[0]]


def others_waiting(world: Alignment, culprits: Iterable[int]) -> tuple[int, ...]:
    """Those who wait and are not to blame."""
    return tuple(rank for rank in world.waits if rank not in set(culprits))
