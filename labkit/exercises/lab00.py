"""Checks of the lab "Meet the ranks"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import join_ranks
from ..units import format_seconds
from ..vocabulary import RankState
from ..wire import CellResult, TensorTable, WorldStatus
from ._base import NotYet, check, no_text, rows
from .guess import Answer, Found


@check("00/doctor")
def doctor(report: Any) -> Found:
    """Nothing is known that will not work."""
    if not hasattr(report, "results"):
        raise NotYet("this check needs the doctor's report", hint="pass it report, from labkit.doctor()")
    failed = [result for result in report.results if result.status == "fail"]
    if failed:
        raise NotYet(f"{failed[0].title}: {failed[0].detail}", hint=failed[0].next_step or "mend this first")
    says = f"none of {len(report.results)} lines says FAIL: {report.ranks} ranks can run on this machine."
    return Found(says, Answer(0, "lines"))


@check("00/processes")
def processes(status: WorldStatus, pids: Mapping[int, int]) -> Found:
    """The ranks' own numbers are those on their cards: one process each."""
    told = {rank: int(pid) for rank, pid in pids.items()}
    cards = {card.rank: card.pid for card in status.cards}
    wrong = [rank for rank in cards if told.get(rank) != cards[rank]]
    if wrong:
        raise NotYet(f"{join_ranks(wrong)} gave no pid, or not the pid on the card", hint="run the cell above on all ranks")
    if len(set(told.values())) < len(cards):
        raise NotYet("two ranks share one process", hint="stop the world and start it again")
    says = f"{len(cards)} ranks are {len(cards)} processes, and none of them is the notebook's process."
    return Found(says, Answer(len(cards), "processes"))


@check("00/some")
def some(result: CellResult) -> Found:
    """A cell that was sent to one rank: the others did nothing."""
    asked = [outcome.rank for outcome in _cell(result).outcomes]
    if asked != [0]:
        raise NotYet(f"this cell went to {join_ranks(asked)}", hint="run the cell with %%ranks 0 again, then this one")
    return Found("only rank 0 ran the cell, so only rank 0 has the word.", Answer(1, "rank"))


@check("00/voices")
def voices(result: CellResult) -> str:
    """All ranks speak, in two voices."""
    said = {outcome.rank: _said(outcome) for outcome in _cell(result).outcomes}
    if not result.ok:
        raise NotYet("the cell raised an exception", hint="run world.last to see rank and line, and correct it")
    mute = [rank for rank in range(result.world_size) if not any(said.get(rank, ()))]
    if mute:
        raise NotYet(f"{join_ranks(mute)} printed nothing", hint="let every rank print something")
    if len(set(said.values())) != 2:
        many = len(set(said.values()))
        what = "all ranks print the same" if many == 1 else f"the output has {many} blocks"
        raise NotYet(what, hint="print something that depends only on rank % 2")
    if any(said[rank] != said[rank % 2] for rank in said):
        raise NotYet("the blocks do not separate even ranks from odd ranks", hint="rank % 2 is 0 on even ranks")
    return f"{result.world_size} ranks printed, and the output has two blocks."


def _said(outcome: Any) -> tuple[str, str]:
    printed = "".join(piece.text for piece in outcome.output).strip()
    shown = outcome.shown.text.strip() if outcome.shown is not None else ""
    return printed, shown


@check("00/raises")
def raises(result: CellResult) -> Found:
    """One rank raised, and it is named; the others have their answer."""
    raised = {outcome.rank: outcome.error for outcome in _cell(result).outcomes if outcome.error is not None}
    if len(result.outcomes) < result.world_size:
        raise NotYet("this cell did not go to all ranks", hint='run world.run_cell("1 / rank") again')
    if len(raised) != 1:
        raise NotYet(f"{join_ranks(list(raised)) if raised else 'no rank'} raised", hint='run world.run_cell("1 / rank") again')
    ((rank, error),) = raised.items()
    says = f"rank {rank} raised {error.type} ({error.site}), and {result.world_size - 1} ranks returned a result."
    return Found(says, Answer(1, "rank"))


@check("00/push")
def push(scores: Mapping[int, Any]) -> str:
    """Every rank has a number of its own: its square."""
    for rank, score in scores.items():
        no_text(f"rank {rank} has", score)
    wrong = [rank for rank, score in scores.items() if float(score) != rank**2]
    if wrong:
        raise NotYet(f"rank {wrong[0]} has {scores[wrong[0]]}", hint="world.push(rank, score=...) for each rank, with its square")
    return f"{', '.join(str(int(scores[rank])) for rank in sorted(scores))}: one number per rank."


@check("00/tensors")
def tensors(table: TensorTable) -> Found:
    """The all-reduce has put the sum on every rank."""
    found = rows(table)
    total = sum(range(1, len(found) + 1))
    wrong = [rank for rank, values in found.items() if any(value != total for value in values)]
    if wrong:
        raise NotYet(f"rank {wrong[0]} has {found[wrong[0]][0]:g}", hint="run the cell above again, on all ranks")
    return Found(f"{total} on all {len(found)} ranks.", Answer(total))


@check("00/deadline")
def deadline(result: CellResult, status: WorldStatus) -> Found:
    """The cell was ended at its deadline, and after the recovery every rank is free."""
    late = [outcome.rank for outcome in _cell(result).outcomes if outcome.status == "late"]
    if not late:
        raise NotYet("no rank missed the deadline", hint="run the cell that never ends again")
    busy = [card.rank for card in status.cards if card.state != RankState.IDLE]
    if busy or status.note:
        verb = "is" if len(busy) == 1 else "are"
        raise NotYet(f"{join_ranks(busy)} {verb} not free yet" if busy else status.note, hint="world.recover() frees the ranks")
    says = f"the notebook was free after {format_seconds(result.elapsed_s)}, and {join_ranks(late)} is free again."
    return Found(says, Answer(result.elapsed_s, "s", noise=1.2))


NEEDED = ("ranks", "backend", "seed")


@check("00/note")
def note(record: Any, kept: Any, status: WorldStatus) -> str:
    """With the record of versions and launch, the note says all that a repetition needs."""
    if not getattr(record, "packages", None):
        raise NotYet("the record has no versions", hint="record = experiment_record()")
    if not isinstance(kept, Mapping):
        raise NotYet(f"your note is a {type(kept).__name__}", hint='write a dict, such as {"ranks": ..., ...}')
    missing = [name for name in NEEDED if name not in kept]
    if missing:
        raise NotYet(f"your note has no {missing[0]}", hint=f"it has three entries: {', '.join(NEEDED)}")
    truth = {"ranks": status.world_size, "backend": status.backend, "seed": 2024}
    for name in NEEDED:
        if name != "backend":
            no_text(f"your note says of {name}", kept[name])
        if kept[name] != truth[name]:
            raise NotYet(f"{name} was not {kept[name]!r}", hint="look at world.status() and at the seed you pushed")
    return f"{len(record.packages)} versions, the launch command and your {len(NEEDED)} entries: enough to repeat the run."


@check("00/again")
def again(first: TensorTable, second: TensorTable, before: WorldStatus, after: WorldStatus) -> Found:
    """Other processes, the same numbers, bit by bit."""
    rows(first), rows(second)
    same = {card.pid for card in before.cards} & {card.pid for card in after.cards}
    if same:
        raise NotYet("these are the old processes", hint="world.stop(), then world = labkit.start()")
    ours = {sample.rank: sample.digest for sample in first.samples}
    theirs = {sample.rank: sample.digest for sample in second.samples}
    if ours != theirs:
        raise NotYet("the numbers differ", hint="push the same seed, and run the cell that draws again")
    return Found(f"{len(theirs)} new processes drew exactly the same numbers.", Answer(len(theirs), "ranks"))


def _cell(result: Any) -> CellResult:
    if not isinstance(result, CellResult):
        raise NotYet(f"this check needs the result of a rank cell, not {type(result).__name__}", hint="pass it world.last")
    return result
