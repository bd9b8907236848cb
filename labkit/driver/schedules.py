"""Schedules on the live ranks of a world: one executed and checked, several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RankDead, RankStuck, UsageError, join_ranks
from ..plain import dumps
from ..schedule import Algorithm, Schedule, check_programs, programs
from ..schedule.hosts import link_in_words
from ..schedule.records import ITEM_BYTES, Comparison, RankRun, ScheduleRun, Timing
from ..wire import CellResult, Diagnosis, Outcome
from . import cells
from .arguments import LIBRARY, check_op, check_rounds, check_size, compared, labels, schedule_of
from .armed import Armed, refuse_armed
from .checks import check_deadline, raise_first
from .variables import check_name

if TYPE_CHECKING:
    from .transport import Pending
    from .world import World

LATE_S = 0.5  # a run that took no longer has nobody who came late
RUN_S = 60.0  # patience with a run, unless the caller says otherwise
_CALLERS = ("UsageError", "UnknownName")


def run_schedule(
    world: World,
    algorithm: str | Algorithm | Schedule,
    *,
    numel: int | None = None,
    tensor: str = "",
    op: str = "sum",
    dtype: str = "float32",
    trace: bool = True,
    into: str = "",
    deadline_s: float | None = None,
    **params: Any,
) -> ScheduleRun:
    """Execute a schedule on all ranks, and hold its result against the library's all-reduce.

    The tensor is made on the ranks (`numel` elements; the total, for all-gather and reduce-scatter), or is the ranks'
    variable `tensor`, which stays as it is; `into` names a variable for the result. With `trace` the steps run one
    after the other and each is timed; without, they overlap as far as they can. What goes wrong on the ranks is told
    by the record's diagnosis, as for a cell. A fault that is armed fires in one of its rank's moves (number `at`, from 1), which
    then run one after the other on all ranks; the record's notes say whether it did.
    """
    schedule = schedule_of(world, algorithm, params)
    name = check_op(op, dtype)
    if into != "":
        check_name(into)
    size = check_size(0 if tensor else (1024 if numel is None else numel))
    if bool(tensor) and numel is not None:
        raise UsageError("numel and tensor do not go together", hint="a variable has its own size: leave numel out")
    made = programs(schedule)
    problems = check_programs(made)
    if problems:
        raise UsageError(f"{schedule.name} can't run: {problems[0].sentence}", hint="change the steps that it names")
    limit, armed = check_deadline(max(world.deadline_s, RUN_S) if deadline_s is None else deadline_s), Armed.now(world)
    shared = {
        "op": name, "dtype": dtype, "numel": size, "tensor": tensor, "into": into, "cell": world.cell,
        "trace": bool(trace) or armed.may_fire,
    }  # fmt: skip
    payloads = [{"program": dumps(program), **shared} for program in made]
    outcomes, diagnosis = ask(world, "schedule", payloads, limit, armed.may_resolve(limit))
    run = _run_record(schedule, outcomes, diagnosis, op=name, size=size, dtype=dtype, traced=trace)
    if diagnosis is None and (armed.may_fire or not run.ended or run.seconds >= LATE_S):
        run = replace(run, diagnosis=_after(world, outcomes))
    notes = armed.told([len(program.moves(run.num_elements)) for program in made], schedule.name)
    return replace(run, backend=backend_of(world), notes=notes)


def _after(world: World, outcomes: tuple[Outcome, ...]) -> Diagnosis | None:
    """What is to be said of a run that ended: of its own moves alone, without asking the ranks."""
    found = world._judge(world._cluster.feed.look(world._evidence(), ask=False, sources=world._source))
    moves = [call for view in found.evidence.ranks for call in view.calls if call.turn == world._turn]
    if found.healthy or not moves:
        return None
    world._note(CellResult(world.cell, outcomes, found, None, 0.0, world.world_size))
    return found


def compare(
    world: World,
    algorithms: Sequence[str | Algorithm | Schedule],
    *,
    num_bytes: int = 1 << 20,
    dtype: str = "float32",
    op: str = "sum",
    rounds: int = 7,
    deadline_s: float | None = None,
) -> Comparison:
    """All-reduce schedules and the library's all-reduce, in turn in one run; medians and spread.

    A schedule of one's own that is no all-reduce is refused: how fast it is wrong tells nothing. Entries of one name are
    told apart by their parameters, or by a number.
    """
    refuse_armed(world, "a comparison")
    schedules = compared(world, algorithms)
    check_rounds(rounds)
    name, numel = check_op(op, dtype), check_size(num_bytes) // ITEM_BYTES[dtype]
    made = [programs(schedule) for schedule in schedules]
    payloads = [
        {"programs": [dumps(each[rank]) for each in made], "numel": numel, "dtype": dtype, "op": name, "rounds": rounds}
        for rank in range(world.world_size)
    ]
    outcomes = ask_all(world, "compare_schedules", payloads, deadline_s)
    by_rank = [outcome.value["times"] for outcome in outcomes]
    names = [*labels(schedules), LIBRARY]
    timings = tuple(Timing(each, spans([times[index] for times in by_rank])) for index, each in enumerate(names))
    return Comparison(world.world_size, numel * ITEM_BYTES[dtype], dtype, timings, backend_of(world), where=where(world))


def backend_of(world: World) -> str:
    """What moved the bytes; "fake" in a world whose ranks are acted, so that nobody takes its times for measured ones."""
    return "fake" if world._cluster.launcher.name == "fake" else world.backend


def where(world: World, members: tuple[int, ...] = ()) -> str:
    """For instance "ranks 0 and 2 of 4, on hosts 0 and 1; links: 200mbit"; "" for all ranks of this machine as it is."""
    members = members or tuple(range(world.world_size))
    some = f"{join_ranks(members)} of {world.world_size}" if len(members) < world.world_size else ""
    under = world._cluster.under if world.hosts else None
    if under is None:
        return some
    places = {under.places[rank] for rank in members}
    on = f"on {join_ranks(sorted(places)).replace('rank', 'host')}"
    links = f"; links: {link_in_words(under.shape.rate, under.shape.delay)}" if len(places) > 1 else ""
    return f"{some}, {on}{links}" if some else f"{on}{links}"


def spans(by_rank: Sequence[Sequence[Sequence[float]]]) -> tuple[float, ...]:
    """Seconds of each round, from when the last rank was ready until the last one was through.

    >>> spans([[[0.0, 2.0]], [[0.5, 1.75]]])
    (1.5,)
    """
    rounds = zip(*by_rank, strict=True)
    return tuple(max(end for _, end in each) - max(begin for begin, _ in each) for each in rounds)


def ask(
    world: World,
    op: str,
    payloads: Sequence[dict[str, Any]],
    deadline_s: float | None,
    may_resolve: frozenset[str] = cells.MAY_RESOLVE,
) -> tuple[tuple[Outcome, ...], Diagnosis | None]:
    """One request to every rank, each with its own payload; watched like a cell, so that a hang is explained.

    An interrupt frees the ranks and is raised on.
    """
    targets = world._ready(None)
    limit = check_deadline(max(world.deadline_s, RUN_S) if deadline_s is None else deadline_s)
    world._targets = targets
    world._turn += 1
    look = _news(world)
    pendings: list[Pending] = []
    watch = cells.Watch(world._cluster.feed.beats, look, limit, may_resolve=may_resolve)
    try:
        world._send_all(pendings, op, {rank: payloads[rank] for rank in targets})
        diagnosis = cells.run(pendings, watch)
    except KeyboardInterrupt:
        cells.close(pendings)
        world.interrupt()
        raise
    outcomes = cells.outcomes(pendings, "late" if watch.expired else "stuck")
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if not failed:
        return outcomes, None
    if all(outcome.error is not None and outcome.error.type in _CALLERS for outcome in failed):
        raise_first(op, outcomes)
    diagnosis = diagnosis or look()
    world._note(CellResult(world.cell, outcomes, diagnosis if not diagnosis.healthy else None, None, 0.0, world.world_size))
    return outcomes, diagnosis


def _news(world: World) -> Callable[[], Diagnosis]:
    """`world.diagnose`, less what it says already: a cell that ended badly is not this request's fault.

    But a rank that is gone or stopped by now is: it was there when the request was checked.
    """
    known = {verdict.sentence for verdict in world.diagnose().verdicts if verdict.code not in ("LK001", "LK002")}

    def look() -> Diagnosis:
        found = world.diagnose()
        return replace(found, verdicts=tuple(verdict for verdict in found.verdicts if verdict.sentence not in known))

    return look


def ask_all(world: World, op: str, payloads: Sequence[dict[str, Any]], deadline_s: float | None) -> tuple[Outcome, ...]:
    """The same, for what is worth nothing unless all ranks answer: raises with the verdict if there is one."""
    outcomes, diagnosis = ask(world, op, payloads, deadline_s)
    verdict = diagnosis.verdict if diagnosis is not None else None
    if verdict is not None:
        kind = RankDead if any(outcome.status == "dead" for outcome in outcomes) else RankStuck
        raise kind(verdict.sentence, hint="world.recover() brings the ranks back", ranks=verdict.culprits)
    raise_first(op, outcomes)
    return outcomes


def _run_record(
    schedule: Schedule, outcomes: Sequence[Outcome], diagnosis: Diagnosis | None, *, op: str, size: int, dtype: str, traced: bool
) -> ScheduleRun:
    values = {outcome.rank: outcome.value for outcome in outcomes if outcome.ok and not outcome.value.get("left")}
    for value in values.values():
        dtype, size = value["dtype"], value["numel"]
    item_bytes = ITEM_BYTES[dtype]
    num_steps = schedule.num_steps
    whole = len(values) == schedule.world_size
    began_s, ended_s = (max((value[end] for value in values.values()), default=0.0) for end in ("began_s", "ended_s"))
    errors = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
    return ScheduleRun(
        name=schedule.name, collective=schedule.collective, world_size=schedule.world_size, num_elements=size, dtype=dtype,
        op=op, num_bytes=size * item_bytes, num_steps=num_steps, traced=traced,
        seconds=ended_s - began_s if whole else 0.0,
        ranks=tuple(_rank_run(rank, value, num_steps if traced else 0, began_s) for rank, value in values.items()),
        declared=declared(schedule, size, item_bytes), diagnosis=diagnosis, error=errors[0] if errors else "",
    )  # fmt: skip


def _rank_run(rank: int, value: dict[str, Any], num_steps: int, began_s: float) -> RankRun:
    steps = dict(map(tuple, value["step_s"]))
    return RankRun(
        rank=rank, seconds=value["ended_s"] - value["began_s"], step_s=tuple(steps.get(step, 0.0) for step in range(num_steps)),
        **{name: value[name] for name in ("sent_messages", "received_messages", "sent_bytes", "received_bytes")},
        agrees=value["agrees"], worst=value["worst"], digest=value["digest"], early_s=began_s - value["began_s"],
    )  # fmt: skip


def declared(schedule: Schedule, num_elements: int, item_bytes: int) -> tuple[tuple[int, int, int, int], ...]:
    """What the schedule's transfers come to on each rank, by counting its steps; empty ones are not sent.

    >>> from labkit.schedule import ALGORITHMS
    >>> declared(ALGORITHMS["ring"].schedule(2), 3, 4)
    ((2, 2, 12, 12), (2, 2, 12, 12))
    """
    starts = schedule.layout(num_elements).bounds()
    found = np.zeros((schedule.world_size, 4), dtype=np.int64)
    for step in schedule.steps():
        num_bytes = (starts[step.chunk_hi] - starts[step.chunk_lo]) * item_bytes
        for column, ranks, weights in ((0, step.src, num_bytes > 0), (1, step.dst, num_bytes > 0), (2, step.src, num_bytes)):
            np.add.at(found[:, column], ranks, weights)
        np.add.at(found[:, 3], step.dst, num_bytes)
    return tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in found)
