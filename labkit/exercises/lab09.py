"""Checks of the lab "When it hangs"."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..errors import join_ranks
from ..faults import FAULTS
from ..units import format_seconds
from ..vocabulary import RankState
from ..wire import CellResult, Diagnosis, WorldStatus
from ._base import NotYet, check
from .clinic import CASES, answered
from .guess import Answer, Found

ENDINGS = ("hang", "abort", "error", "silent", "slow")
_UNANSWERED = frozenset({"late", "stuck", "dead"})


# ---- the five endings, as they were seen
@check("09/order")
def order(result: CellResult) -> Found:
    """Two calls changed places: all wait."""
    return _ended(result, "swapped-order")


@check("09/data")
def data(result: CellResult) -> Found:
    """A rank left early: the others wait."""
    return _ended(result, "leaves-early")


@check("09/raised")
def raised(result: CellResult) -> Found:
    """A rank raised and lives on: the others wait."""
    return _ended(result, "rank-raises")


@check("09/twins")
def twins(result: CellResult) -> Found:
    """Two calls that look alike changed places: wrong numbers, no word."""
    return _ended(result, "swapped-twins")


@check("09/size")
def size(result: CellResult) -> Found:
    """One tensor was of another size: a process is gone."""
    says = _ended(result, "shape-mismatch")
    dead = [outcome.rank for outcome in result.outcomes if outcome.status == "dead"]
    if not dead:
        return says
    return Found(f"{says} The process of {join_ranks(dead)} is gone; recovery has a copy of what it knew.", says.answer)


@check("09/slow")
def slow(result: CellResult) -> Found:
    """A rank was late: right numbers, and everybody waited."""
    says = _ended(result, "slow")
    return Found(f"{says} The cell took {format_seconds(result.elapsed_s)}.", says.answer)


def _ended(result: CellResult, fault: str) -> Found:
    """The ending that the fault declares, if the result shows it."""
    verdict = _verdict(result)
    expected = FAULTS[fault].expect["raw"]
    if verdict is None or verdict.code not in expected.codes:
        seen = "ended well" if verdict is None else f"got a different verdict, {verdict.code}"
        raise NotYet(f"this cell {seen}", hint=f'run the cell with world.inject("{fault}", ...) again, and the one below it')
    return Found(f"{expected.ending}, and {verdict.code} names {join_ranks(verdict.culprits)}.", Answer(expected.ending))


def _verdict(result: Any) -> Any:
    if not isinstance(result, CellResult):
        raise NotYet(f"this check needs the result of a rank cell, not {type(result).__name__}", hint="pass it world.last")
    return result.diagnosis.verdict if result.diagnosis is not None else None


# ---- the five, mended
@check("09/order-mended")
def order_mended(result: CellResult, diagnosis: Diagnosis) -> str:
    """Both calls, in one order on all ranks."""
    values = _mended(result, diagnosis, ops=("all_reduce", "broadcast"))
    total = float(sum(range(1, len(values) + 1)))
    _all_show(values, (total, 7.0), hint="all-reduce grad, and broadcast scale from rank 0")
    return f"{total:g} and 7 on every rank."


@check("09/data-mended")
def data_mended(result: CellResult, diagnosis: Diagnosis) -> str:
    """As many steps on every rank, whatever its share."""
    values = _mended(result, diagnosis, ops=("all_reduce",))
    num_ranks = len(values)
    every, whole_steps = range(1, 4 * num_ranks), range(1, 3 * num_ranks + 1)
    if set(values.values()) == {float(sum(every))}:
        return f"{sum(every)} on every rank: all samples are included, and every rank made the same calls."
    _all_show(values, float(sum(whole_steps)), hint="use as many samples as every rank has, from the start of its share")
    return f"{sum(whole_steps)} on every rank: every rank left out its extra samples."


@check("09/raised-mended")
def raised_mended(result: CellResult, diagnosis: Diagnosis) -> str:
    """The bad sample is survived, and all ranks know of it."""
    values = _mended(result, diagnosis, ops=("all_reduce",))
    num_good = len(values) - 1
    _all_show(values, float(num_good), hint="give 1 if the batch was loaded and 0 if not, and add them with all_reduce")
    return f"all ranks know that {num_good} of {len(values)} batches were loaded."


@check("09/twins-mended")
def twins_mended(result: CellResult, diagnosis: Diagnosis) -> str:
    """Both sums, with the same meaning on all ranks."""
    values = _mended(result, diagnosis, ops=("all_reduce",))
    total = float(sum(range(1, len(values) + 1)))
    _all_show(values, (total, 100 * total), hint="every rank must take weight and bias in the same order")
    return f"weight {total:g} and bias {100 * total:g} on every rank."


@check("09/size-mended")
def size_mended(result: CellResult, diagnosis: Diagnosis) -> str:
    """The mean of all samples, of batches that are not of one size."""
    values = _mended(result, diagnosis, ops=("all_reduce",))
    batches = [[10.0 * rank + place for place in range(3 if rank == len(values) - 1 else 4)] for rank in range(len(values))]
    samples = [sample for batch in batches for sample in batch]
    mean, of_means = sum(samples) / len(samples), sum(sum(batch) / len(batch) for batch in batches) / len(batches)
    if all(_close(value, of_means) for value in values.values()):
        raise NotYet(f"{of_means:.4g} is the mean of the ranks' means: a short batch counts as much as a full one",
                     hint="add the sums and the sizes over all ranks, and divide once at the end")  # fmt: skip
    _all_show(values, mean, hint="add the sums and the sizes over all ranks, and divide once at the end")
    return f"{mean:.4g} on every rank: each of the {len(samples)} samples counts once."


def _mended(result: CellResult, diagnosis: Diagnosis, *, ops: tuple[str, ...]) -> dict[int, Any]:
    """What each rank showed, if all ended well and all made the same calls, `ops` among them."""
    verdict = _verdict(result)
    if any(outcome.status in _UNANSWERED for outcome in result.outcomes):
        raise NotYet(verdict.sentence.rstrip(".") if verdict else "it never ends", hint="world.recover(), then try again")
    failed = [outcome for outcome in result.outcomes if not outcome.ok]
    if failed:
        error = failed[0].error
        raise NotYet(f"{join_ranks([o.rank for o in failed])} raised {error}", hint=f"look at {error.site if error else 'it'}")
    if verdict is not None:
        raise NotYet(verdict.sentence.rstrip("."), hint="all ranks finish, but the result is not right yet")
    calls = {view.rank: tuple(c.op for c in view.calls if c.cell == result.cell) for view in diagnosis.evidence.ranks}
    for rank, made in calls.items():
        if not set(ops) <= set(made):
            missing = next(op for op in ops if op not in made)
            raise NotYet(f"rank {rank} does not call {missing}", hint="to agree, the ranks must communicate")
        if made != calls[0]:
            raise NotYet(
                f"rank {rank} and rank 0 make different calls", hint="every rank must make the same calls in the same order"
            )
    return {outcome.rank: _shown(outcome.shown.text if outcome.shown else "") for outcome in result.outcomes}


def _shown(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise NotYet(f"the cell's last line shows {text or 'nothing'}", hint="keep the cell's last line unchanged") from None


def _all_show(values: Mapping[int, Any], wanted: Any, *, hint: str) -> None:
    for rank, value in values.items():
        if not _close(value, wanted):
            raise NotYet(f"rank {rank} has {value}", hint=hint)


def _close(value: Any, wanted: Any) -> bool:
    """
    >>> _close((1.0, 2), (1.0, 2.0)), _close(1.0, (1.0,))
    (True, False)
    """
    if isinstance(wanted, tuple):
        return isinstance(value, tuple) and len(value) == len(wanted) and all(map(_close, value, wanted))
    return isinstance(value, (int, float)) and abs(value - wanted) <= 1e-4 * max(1.0, abs(wanted))


# ---- what people say
@check("09/timeout")
def timeout(short: CellResult, long: CellResult) -> Found:
    """Two deadlines, one hang: the second message is the first one, later."""
    first, second = _verdict(short), _verdict(long)
    if first is None or second is None or long.elapsed_s < short.elapsed_s + 1:
        raise NotYet("these are not two hangs with different deadlines", hint="run both cells again, each with its world.inject")
    if (first.code, first.culprits) != (second.code, second.culprits):
        raise NotYet(f"the two verdicts differ, {first.code} and {second.code}", hint="run both cells again")
    return Found(
        f"the same rank and the same line, after {format_seconds(short.elapsed_s)} and after {format_seconds(long.elapsed_s)}: "
        "the deadline only decides when you find out.",
        Answer(0, "deadlines"),
    )


@check("09/interrupt")
def interrupt(before: WorldStatus, after: WorldStatus) -> Found:
    """The ranks were waiting when the notebook had its prompt back; now they are free, in the same processes."""
    waiting = [card.rank for card in before.cards if card.state in (RankState.WAITING, RankState.STUCK)]
    if not waiting:
        raise NotYet(
            "no rank was waiting before", hint="run before = world.status() while the ranks hang, before world.interrupt()"
        )
    busy = [card.rank for card in after.cards if card.state != RankState.IDLE]
    if busy or after.note:
        verb = "is" if len(busy) == 1 else "are"
        raise NotYet(f"{join_ranks(busy)} {verb} not free yet" if busy else after.note, hint="call world.interrupt() first")
    if [card.pid for card in before.cards] != [card.pid for card in after.cards]:
        raise NotYet("some processes are new", hint="run before = world.status() just before world.interrupt()")
    says = f"{join_ranks(waiting)} were waiting and are free now: same processes, generation {after.generation}."
    return Found(says, Answer(0, "processes"))


@check("09/safe")
def safe(results: Mapping[str, CellResult], status: WorldStatus) -> Found:
    """In safe mode each fault ends as an error, and the groups are as before."""
    for name, result in results.items():
        if _verdict(result) is None or not {outcome.status for outcome in result.outcomes} <= {"ok", "error"}:
            raise NotYet(f"{name} did not end as an error", hint='world.set_mode("safe"), then run them again')
    if status.mode != "safe" or status.note:
        raise NotYet(status.note or f"the world is in {status.mode} mode", hint='world.set_mode("safe"), then run them again')
    says = f"{len(results)} of {len(results)} ended as ordinary errors in generation {status.generation}: no recovery needed."
    return Found(says, Answer(len(results), "faults"))


# ---- the clinic
@check("09/clinic-1")
def clinic_1(answer: Mapping[str, Any], result: CellResult) -> str:
    """The first case: rank, line and kind."""
    return answered(CASES[0], answer, result)


@check("09/clinic-2")
def clinic_2(answer: Mapping[str, Any], result: CellResult) -> str:
    """The second case: rank, line and kind."""
    return answered(CASES[1], answer, result)


@check("09/clinic-3")
def clinic_3(answer: Mapping[str, Any], result: CellResult) -> str:
    """The third case: rank, line and kind."""
    return answered(CASES[2], answer, result)
