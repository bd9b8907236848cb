"""The phrases that verdicts are made of, so that all rules speak alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..calls import Aspect, by_majority, parting
from ..errors import join_ranks
from ..makings import as_written, is_about_groups
from ..units import format_seconds
from ..vocabulary import Activity, CallState, Ending, ProcessState, Standing
from ..wire import Call, CallSite, Evidence, Side
from . import where
from .alignment import Alignment, Disagreement, Track
from .parting import same_pass
from .source import comes_later

SAME_ORDER = "Let every rank call the collectives in the same order"


# ---- calls and places
def named(call: Call) -> str:
    """A call by name and number, with its process group if that is not the world, or its peer; a library's by what it is for.

    >>> named(Call(1, 2, "all_reduce", group="tp")), named(Call(1, 0, "recv", root=3))
    ('all_reduce #2 of process group tp', 'recv from rank 3')
    >>> named(Call(1, 5, "all_gather_into_tensor", part="FSDP's all-gather of layers.0"))
    "FSDP's all-gather of layers.0 (all_gather_into_tensor #5)"
    """
    return f"{belonging(call)} ({_numbered(call)})" if call.part else _numbered(call)


def belonging(call: Call) -> str:
    """What a library's call is for, with its step: "DDP's gradient bucket 1 of step 3 (0.weight)"."""
    return call.part.replace(" (", f" of step {call.step} (", 1) if call.step else call.part


def _numbered(call: Call) -> str:
    if call.p2p:
        peer = f"{'to' if 'send' in call.op else 'from'} rank {call.root}" if call.root >= 0 else "from any rank"
        tag = f" with tag {call.tag}" if call.tag else ""
        of = call.asked if call.op not in call.asked or call.asked == "batch_isend_irecv" else ""
        return f"{call.op} {peer}{tag} of {of}" if of else f"{call.name} {peer}{tag}"
    if is_about_groups(call):
        return as_written(call)
    return f"{call}" if call.group == "world" else f"{call} of process group {call.group}"


def at(site: CallSite | None) -> str:
    """The place in brackets, with a space before it; "" if it is not known."""
    return f" ({site})" if site is not None else ""


def placed(call: Call) -> str:
    """A call with its place: "all_reduce #5 (cell 7, line 2)", "recv from rank 1 (step 2 of ring)"."""
    place = f" ({step_of(call)})" if call.algorithm else at(call.site)
    return f"{named(call)[:-1]}, {call.site})" if call.part and call.site is not None else named(call) + place


def unnumbered(call: Call) -> str:
    """A call with its place and without its number: "all_reduce (cell 7, line 2)"."""
    return f"{belonging(call)} ({call.name}, {call.site})" if call.part else f"{call.name}{at(call.site)}"


def sized(call: Call) -> str:
    """A call's tensor: "shape (2, 3), float32"."""
    return f"shape {tuple(call.shape)}" + (f", {call.dtype}" if call.dtype else "")


def verb(ranks: Iterable[int], one: str, many: str) -> str:
    """Ranks with their verb.

    >>> verb([2], "waits", "wait"), verb([0, 1], "waits", "wait")
    ('rank 2 waits', 'ranks 0 and 1 wait')
    """
    ranks = tuple(ranks)
    return f"{join_ranks(ranks)} {one if len(ranks) == 1 else many}"


def _wait(ranks: tuple[int, ...], live: bool) -> str:
    return verb(ranks, "waits", "wait") if live else f"{join_ranks(ranks)} waited"


def thread_of(call: Call) -> str:
    """The function with which the thread of a call began; "" for the main thread.

    >>> thread_of(Call(1, 1, "barrier", site=CallSite("cell 7", 2, "log")))
    'log'
    """
    return call.path[0].function if call.path and call.path[0].function not in ("", "<module>") else ""


# ---- who waits in what
def in_call(world: Alignment, ranks: tuple[int, ...], call: Call, say: Callable[[Call], str] = placed) -> str:
    """Ranks and their call: "wait in" while they do, "waited in" when that is over, "called" where nobody waits."""
    waits = [world.waits[rank] for rank in ranks if rank in world.waits]
    mine = [wait for wait in waits if (wait.call.index, wait.call.seq, wait.call.op) == (call.index, call.seq, call.op)]
    same = [wait for wait in waits if (wait.call.group, wait.call.seq, wait.call.op) == (call.group, call.seq, call.op)]
    if not (mine or same) or call.state == CallState.REFUSED:
        return f"{join_ranks(ranks)} called {say(call)}"
    return f"{_wait(ranks, any(wait.live for wait in mine or same))} in {say(call)}"


def main_wait(world: Alignment, ranks: Iterable[int]) -> tuple[tuple[int, ...], Call] | None:
    """Of these ranks' waits, the call that most are in, and who."""
    calls: dict[tuple[str, int, str, int], list[int]] = {}
    for rank in ranks:
        if rank in world.waits:
            call = world.waits[rank].call
            peer = call.root if call.p2p else -1  # P2P calls have no number: those of two peers are two calls
            calls.setdefault((call.group, call.seq, call.op, peer), []).append(rank)
    if not calls:
        return None
    most = by_majority(calls.values())[0]
    return most, world.waits[most[0]].call


def wait_text(world: Alignment, ranks: Iterable[int]) -> str:
    """Of these ranks, those who wait and in what; "" if nobody does."""
    found = main_wait(world, ranks)
    return in_call(world, *found) if found else ""


def others_waiting(world: Alignment, culprits: Iterable[int]) -> tuple[int, ...]:
    """Those who wait and are not to blame."""
    return tuple(rank for rank in world.waits if rank not in set(culprits))


# ---- schedules
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


def wait_in_schedule(world: Alignment, culprits: Iterable[int], before: str = "") -> str:
    """Who waits for the culprits in a schedule, a clause with `before` it; "" if nobody does."""
    culprits = set(culprits)
    others = [wait for rank, wait in world.waits.items() if rank not in culprits]
    direct = [wait for wait in others if wait.call.root in culprits]
    rest = tuple(wait.rank for wait in others if wait not in direct)
    live = any(wait.live for wait in others)
    said = []
    one = len(culprits) == 1
    message, receiver = ("its message", "it") if one else ("their messages", "them")
    for sends, what in ((False, f"for {message}"), (True, f"to send to {receiver}")):
        ranks = tuple(wait.rank for wait in direct if ("send" in wait.call.op) is sends)
        if ranks:
            steps = {wait.call.step for wait in direct if wait.rank in ranks}
            said.append(f"{_wait(ranks, live)} {what}" + (f" in step {steps.pop()}" if len(steps) == 1 else ""))
    if rest:
        said.append(_wait(rest, live) + (" in turn" if direct else " too" if culprits & set(world.waits) else ""))
    return before + ", and ".join(said) if said else ""


# ---- the sides of a verdict
def side(evidence: Evidence, ranks: tuple[int, ...], did: str, site: CallSite | None) -> Side:
    """One side of a verdict, with its source line quoted."""
    return Side(tuple(sorted(ranks)), did, site, evidence.source_line(site))


def call_side(world: Alignment, ranks: tuple[int, ...], call: Call) -> Side:
    """The side of ranks that are or were in a call."""
    word = in_call(world, ranks, call, named if call.site is not None else placed).removeprefix(join_ranks(ranks)).strip()
    return side(world.evidence, ranks, word, call.site)


def thread_sides(world: Alignment, ranks: Iterable[int]) -> tuple[Side, ...]:
    """A side for each of these ranks in which another thread has raised."""
    errors = {rank: world.views[rank].thread_error for rank in ranks}
    return tuple(
        side(world.evidence, (rank,), f"a thread raised {error.said()}", error.site) for rank, error in errors.items() if error
    )


def wait_sides(world: Alignment, ranks: Iterable[int]) -> tuple[Side, ...]:
    """A side for every call that some of these ranks wait in."""
    found: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        if rank in world.waits:
            call = world.waits[rank].call
            found.setdefault((named(call), at(call.site)), []).append(rank)
    return tuple(call_side(world, tuple(mine), world.waits[mine[0]].call) for mine in found.values())


# ---- facts, the next step, the ending
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
        facts.append(f"{verb(live, 'has waited', 'have waited')} for {format_seconds(world.waited_s(live))}")
    refused = tuple(rank for rank, wait in world.waits.items() if not wait.live and wait.call.state == CallState.REFUSED)
    if refused:
        facts.append("safe mode refused the call before it was issued")
    cut = tuple(rank for rank, wait in world.waits.items() if not wait.live and rank not in refused)
    if cut:
        facts.append(f"{join_ranks(cut)} waited for {format_seconds(world.waited_s(cut))}, then the wait was ended")
    return tuple(facts)


def after_fixing(world: Alignment) -> str:
    """What to do when the code is fixed."""
    waits = world.waits.values()
    refused = any(c.state == CallState.REFUSED and c.cell == world.focus for line in world.calls.values() for c in line)
    if refused and not any(wait.live for wait in waits):
        return after_refusal(world)
    if waits or world.ranks_in(Standing.DEAD, Standing.STOPPED):
        return "world.recover() brings the ranks back."
    return f"Then run the {'schedule' if world.algorithm else 'cell'} again: its results are wrong."


def after_refusal(world: Alignment) -> str:
    """What to do after safe mode has refused a call: what was issued, and who is still at work, is said."""
    running = [view for view in world.views.values() if view.process == ProcessState.RUNNING]
    at_work = [view.rank for view in running if view.activity != Activity.IDLE]
    if at_work:
        return f"Safe mode refused the call on the other ranks; {still_at_work(world.evidence, at_work)}."
    if world.ranks_in(Standing.DEAD, Standing.STOPPED):
        return "world.recover() brings the ranks back."
    if world.evidence.broken:
        return "Calls had been issued and were cut off, so the process groups are broken: world.recover() forms new ones."
    failed = [call for line in world.calls.values() for call in line if call.state == CallState.FAILED]
    broken = next((call for call in failed if call.cell == world.focus and not call.p2p), None)
    if broken is not None:
        return f"{placed(broken)} had been issued, so its process group is broken: world.recover() forms new groups."
    error = world.sequence_error
    mixed = error is not None and any(call.state == CallState.DONE for call in error.track.columns.get(error.seq, {}).values())
    before = " Calls before it were matched wrongly: what they gave is wrong." if mixed else ""
    return f"No rank has issued the refused call, so the groups still work: fix the cell and run it again.{before}"


def still_at_work(evidence: Evidence, ranks: Sequence[int]) -> str:
    """Who still runs the cell and where, and what to do.

    >>> from labkit.wire import Frame, RankView
    >>> still_at_work(Evidence(1, ranks=(RankView(0, stack=(Frame("cell 7", 4, "tokenize"),)),)), [0])
    'rank 0 is still in tokenize (cell 7, line 4): let it end, or world.recover() frees it'
    """
    places: dict[str, list[int]] = {}
    for view in evidence.ranks:
        if view.rank in ranks:
            places.setdefault(where.doing(view), []).append(view.rank)
    text = " and ".join(f"{verb(who, 'is', 'are')} still {place}" for place, who in places.items())
    them = "it" if len(ranks) == 1 else "them"
    return f"{text}: let {them} end, or world.recover() frees {them}"


def ending(world: Alignment, column: Mapping[int, Call]) -> Ending:
    """What the learner sees of a mismatch at these calls."""
    if any(world.standing(rank) == Standing.DEAD for rank in column):
        return Ending.ABORT
    if any(call.state == CallState.REFUSED for call in column.values()):
        return Ending.ERROR
    if not world.waits:
        return Ending.SILENT
    quick = all(not wait.live and wait.call.returned_s - wait.call.issued_s < 0.3 for wait in world.waits.values())
    return Ending.ERROR if quick else Ending.HANG


# ---- calls of one number that differ
def blame(world: Alignment, found: Disagreement) -> tuple[tuple[int, ...], str]:
    """The culprits and a hedge: the minority; where there is none, everybody, unless the source tells more."""
    if not found.tie:
        return tuple(sorted(rank for side in found.sides[1:] for rank in side)), ""
    everyone = tuple(sorted(found.column))
    if found.aspect is not Aspect.OP or len(everyone) != 2:
        return everyone, ""
    rank = ahead_of_source(world, found.track, found.seq, *everyone)
    if rank is None:
        return everyone, ""
    sites = [found.column[each].site for each in sorted(everyone, key=lambda each: each != rank)]
    line, other = (site.line for site in sites if site is not None)
    why = f"line {other} was next" if line < other else f"line {line} comes after line {other}"
    return (rank,), f". Most likely rank {rank} is wrong: {why}"


def ahead_of_source(world: Alignment, track: Track, seq: int, one: int, two: int) -> int | None:
    """Which of two ranks, at different lines at one number, is ahead of the order of the source; None if that can't be told."""
    before = [call for call in track.line(one) if call.seq < seq]
    mine, theirs = track.columns[seq][one], track.columns[seq][two]
    frames = parting((mine.path, theirs.path))
    if not frames:
        return None
    later = comes_later(world.evidence, frames[0], frames[1], same_pass(frames[0], mine, before))
    return None if later is None else one if later else two


def both_sides(found: Disagreement, describe: Callable[[Call], str]) -> str:
    """All sides in a row: rank 0 called this, rank 1 called that."""
    sides = sorted(found.sides, key=lambda side: side[0])
    return ", ".join(f"{join_ranks(side)} called {describe(found.call(side))}" for side in sides)


def column_sides(world: Alignment, found: Disagreement) -> tuple[Side, ...]:
    """A side for each party."""
    return tuple(call_side(world, side, found.call(side)) for side in found.sides)


def mismatch_facts(found: Disagreement) -> tuple[str, ...]:
    """Where the calls still agreed, and whether the differing ones are of different lines."""
    before = found.seq - 1
    agreed = f"calls up to #{before} agree" if before in found.track.columns else "it is the first call that could differ"
    sites = sorted({str(call.site) for call in found.column.values() if call.site is not None})
    return (agreed, f"they come from different lines: {' and '.join(sites)}") if len(sites) > 1 else (agreed,)
