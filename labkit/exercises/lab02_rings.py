"""Lab 02, rings: the one that is written, the one that everybody copies, and how it is found wrong and mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError, join_ranks
from ..schedule import ALGORITHMS, Schedule, Trace, Transfer, check_schedule, count, from_steps, make_step, simulate, trace
from ..schedule.model import Step
from ..schedule.records import ScheduleRun
from ..units import is_number, is_whole
from ..wire import TensorTable
from ._base import TWO_RANKS, NotYet, as_number, check, function, heard, no_text, plain, rows, totals

WORLDS = (2, 3, 4, 5, 8)
Move = tuple[int, int, int, bool]


# ---- schedules that are built here
def schedule_of(steps: Sequence[Sequence[Move]], ranks: int, name: str = "my-ring") -> Schedule:
    """A schedule of a learner's steps: lists of (from rank, to rank, chunk, adds), with as many chunks as ranks.

    >>> schedule_of([[(0, 1, 0, True), (1, 0, 1, True)]], 2).num_steps
    1
    """
    try:
        given = [[(as_number(a), as_number(b), as_number(c), bool(adds)) for a, b, c, adds in moves] for moves in steps]
        for index, moves in enumerate(given):
            _check_numbers(moves, index, ranks)
        made = [[Transfer(int(a), int(b), int(c), int(c) + 1, adds) for a, b, c, adds in moves] for moves in given]
    except (TypeError, ValueError):
        got: Any = steps
        what = "these are not steps" if isinstance(got, Sequence) else f"these are not steps: {heard(got)}"
        raise NotYet(what, hint="a step is a list of (from rank, to rank, chunk, adds)") from None
    try:
        return from_steps(name, "all_reduce", ranks, ranks, made)
    except UsageError as error:
        raise NotYet(f"on {ranks} ranks: {error.what}", hint=error.hint) from None


def _check_numbers(moves: Sequence[Move], index: int, ranks: int) -> None:
    """NotYet for a rank or a chunk that there is not, with what is usually forgotten."""
    here = f"on {ranks} ranks, step {index}:"
    for src, dst, chunk, _ in moves:
        for what, value, said in (("rank", src, "rank"), ("rank", dst, f"rank {src} sends to rank"), ("chunk", chunk, "chunk")):
            no_text(f"{here} {said}", value)
            if not is_number(value) or not 0 <= value < ranks:
                raise NotYet(f"{here} {said} {value}", hint=f"{what}s are 0 to {ranks - 1}: use % ranks")
            if value != int(value):
                raise NotYet(f"{here} {said} {value}", hint=f"{what}s are whole numbers: // instead of /")


def copied_ring(ranks: int) -> Schedule:
    """The ring as it is copied from page to page; its second half starts with the wrong chunk.

    >>> [len(check_schedule(copied_ring(ranks))) > 0 for ranks in (2, 3, 4)]
    [False, True, True]
    """
    return ring_with(lambda rank, step, ranks: (rank - 1 - step) % ranks, ranks, "copied-ring")


def ring_with(second_half: Callable[[int, int, int], int], ranks: int, name: str = "mended-ring") -> Schedule:
    """The copied ring with another second half: which chunk rank r sends in its step 0, 1, ..."""
    numbers = np.arange(ranks)
    sent = []
    for step in range(ranks - 1):
        chunks = [as_number(second_half(rank, step, ranks)) for rank in range(ranks)]
        no_text(f"on {ranks} ranks you send chunk", next((chunk for chunk in chunks if isinstance(chunk, str)), None))
        if None in chunks:
            raise NotYet(f"on {ranks} ranks you give {heard(None)}", hint=f"return the number of a chunk, 0 to {ranks - 1}")
        if not all(is_whole(chunk) and 0 <= chunk < ranks for chunk in chunks):
            raise NotYet(f"on {ranks} ranks you send the chunks {chunks}", hint=f"chunks are 0 to {ranks - 1}: use % ranks")
        sent.append(chunks)

    def steps() -> Iterator[Step]:
        for step in range(ranks - 1):
            yield make_step(numbers, (numbers + 1) % ranks, (numbers - step) % ranks, reduce=True, phase="add up")
        for chunks in sent:
            yield make_step(numbers, (numbers + 1) % ranks, chunks, reduce=False, phase="hand round")

    return Schedule(name, "all_reduce", ranks, ranks, steps)


# ---- the ring that is written here
@check("02/my-ring")
def my_ring(answer: Callable[[int], Sequence[Sequence[Move]]]) -> str:
    """A ring by its mechanism as well as its result: neighbours only, a chunk a step, 2(p - 1) steps, the sum."""
    function(answer, 1)
    for ranks in WORLDS:
        made = schedule_of(answer(ranks), ranks)
        _check_neighbours(made)
        _check_counts(made)
        problems = check_schedule(made)
        if problems:
            raise NotYet(
                f"on {ranks} ranks: {problems[0].sentence}",
                hint="follow one chunk: stepper(trace(schedule_of(my_ring(4), 4), 1024))",
            )
        _check_sum(made)
    return f"the sum on {', '.join(map(str, WORLDS))} ranks; neighbours only, 2(p - 1) steps, 2n(p - 1)/p bytes per rank."


def _check_neighbours(made: Schedule) -> None:
    ranks = made.world_size
    ways: dict[int, str] = {1: "right", ranks - 1: "left"}
    seen = set()
    for index, step in enumerate(made.steps()):
        for move in step.transfers():
            away = (move.dst - move.src) % ranks
            if away not in ways:
                raise NotYet(
                    f"on {ranks} ranks, step {index}: rank {move.src} sends to rank {move.dst}",
                    hint="in a ring, send only to a neighbour",
                )
            seen.add(away)
    if len(seen) > 1:
        raise NotYet(f"on {ranks} ranks you send to the right and to the left", hint="use one direction: (rank + 1) % ranks")


def _check_counts(made: Schedule) -> None:
    ranks = made.world_size
    steps = 2 * (ranks - 1)
    if made.num_steps != steps:
        raise NotYet(
            f"on {ranks} ranks there are {made.num_steps} steps, not {steps}",
            hint="each chunk goes around twice, minus two steps",
        )
    elements = 60 * ranks
    sent = count(made, elements).by_rank.sent_bytes.tolist()
    wanted = 2 * (ranks - 1) * 4 * elements // ranks
    for rank, num_bytes in enumerate(sent):
        if num_bytes != wanted:
            raise NotYet(
                f"on {ranks} ranks, rank {rank} sends {num_bytes} of {4 * elements} bytes",
                hint=f"{wanted} bytes are enough: one chunk per step",
            )
    for index, step in enumerate(made.steps()):
        if sorted(step.src.tolist()) != list(range(ranks)):
            raise NotYet(
                f"on {ranks} ranks, step {index}: not every rank sends exactly once", hint="every rank sends in every step"
            )


def _check_sum(made: Schedule) -> None:
    ranks = made.world_size
    for elements in (2 * ranks, 2 * ranks + 1, 1):
        inputs = [np.arange(elements) * 7**rank + rank for rank in range(ranks)]
        outputs = simulate(made, inputs).outputs
        if not all((output == sum(inputs)).all() for output in outputs):
            raise NotYet(
                f"on {ranks} ranks, {elements} elements: not the sum", hint="check which chunks are added and which are copied"
            )


@check("02/my-ring-live")
def my_ring_live(run: Any) -> str:
    """The learner's ring on the live ranks."""
    whole_run(run)
    return f"on {run.world_size} live ranks: {_proof(run)}."


# ---- the copied ring
@check("02/copied")
def copied(run: Any, table: TensorTable) -> str:
    """The copied ring on the live ranks: as declared, identical, and not the sum."""
    found = rows(table)
    if not isinstance(run, ScheduleRun) or run.name != "copied-ring" or not run.ended:
        raise NotYet("this is not a run of the copied ring", hint="run the cell above again")
    if not table.identical:
        raise NotYet("the ranks differ", hint="run the two cells above again")
    if run.world_size == 2:
        return f"identical and right: {TWO_RANKS} The cells below look at 4 ranks."
    if run.agrees:
        raise NotYet("this is already the sum", hint="run copied_ring unchanged")
    return (
        f"{plain(found[0])} on all {run.world_size} ranks: every message as planned, identical, but not the sum. "
        f"{_shortened(totals(run.world_size))} would be right."
    )


def _shortened(numbers: Sequence[int]) -> str:
    """The beginning and the end of a list.

    >>> _shortened([52, 56, 60, 64]), _shortened([1, 2])
    ('[52, 56, ... 64]', '[1, 2]')
    """
    return f"[{numbers[0]}, {numbers[1]}, ... {numbers[-1]}]" if len(numbers) > 3 else str(list(numbers))


@check("02/first-wrong")
def first_wrong(answer: Callable[[Trace], Any]) -> str:
    """A function that finds the first step in which an unfinished chunk is handed out as finished."""
    function(answer, 1)
    cases: list[tuple[str, Schedule, int | None]] = []
    for ranks in (3, 4, 6):
        cases.append((f"the copied ring on {ranks} ranks", copied_ring(ranks), ranks - 1))
        cases.append((f"a right ring on {ranks} ranks", ALGORITHMS["ring"].schedule(ranks), None))
        late = 2 * (ranks - 1) - 1
        cases.append((f"a ring on {ranks} ranks with one wrong chunk late", _one_wrong(ranks, late), late))
    cases += [
        (f"{name} on 8 ranks", ALGORITHMS[name].schedule(8), None) for name in ("naive", "binomial-tree", "halving-doubling")
    ]
    for name, schedule, truth in cases:
        got = as_number(answer(trace(schedule, schedule.num_chunks)))
        no_text(f"for {name} you say", got)
        if (got is None) != (truth is None) or (truth is not None and (isinstance(got, bool) or got != truth)):
            raise NotYet(
                f"for {name} you say {'None (is there a return?)' if got is None else got}",
                hint="which ranks' inputs are in the chunk just before a rank sends it as a copy?",
            )
    return f"right in {len(cases)} cases, without looking at any number."


def _one_wrong(ranks: int, index: int) -> Schedule:
    """A ring in which rank 1 hands on a wrong chunk in one step of the second half."""

    def steps() -> Iterator[Step]:
        for number, step in enumerate(ALGORITHMS["ring"].schedule(ranks).steps()):
            chunk = step.chunk_lo.copy()
            if number == index:
                chunk[1] = (chunk[1] - 1) % ranks
            yield make_step(step.src, step.dst, chunk, reduce=step.reduce, phase=step.phase)

    return Schedule("ring", "all_reduce", ranks, ranks, steps)


@check("02/mend")
def mend(answer: Callable[[int, int, int], int], table: TensorTable) -> str:
    """The mended second half: by the schedule on many worlds, and by the mean on the live ranks."""
    function(answer, 3)
    for ranks in (2, 3, 4, 5, 8):
        problems = check_schedule(ring_with(answer, ranks))
        if problems:
            raise NotYet(
                f"on {ranks} ranks, {problems[0].sentence}", hint="which chunk is complete on rank r when the first half ends?"
            )
    found = rows(table)
    size = len(found)
    width = len(found[0])
    mean = [float(place + 1 + width * (size - 1) / 2) for place in range(width)]
    for rank, values in found.items():
        if list(values) != mean:
            raise NotYet(f"rank {rank} holds {plain(values)[:8]}", hint='run it with op="avg" on `mine`, into `mended`')
    return f"{plain(mean)} on all {size} ranks: the mean."


# ---- shared
def whole_run(run: Any) -> None:
    """NotYet for a run that did not end, gave other numbers, or did not send what its schedule says."""
    if not isinstance(run, ScheduleRun):
        raise NotYet(f"this check needs a run, not {type(run).__name__}", hint="pass it what world.run_schedule returned")
    if not run.ended:
        raise NotYet(f"{run.name} did not end", hint="world.diagnose() says why, world.recover() frees the ranks")
    if not run.agrees:
        wrong = join_ranks([each.rank for each in run.ranks if not each.agrees])
        raise NotYet(
            f"{run.name} and the library gave different numbers on {wrong}", hint="check its schedule with check_schedule"
        )
    if not run.counted:
        raise NotYet(f"{run.name} did not send what its schedule says", hint="run the cell above again")


def _proof(run: Any) -> str:
    messages: set[Any] = {each.sent_messages for each in run.ranks}
    return f"the library's numbers; each rank sent {' or '.join(map(str, sorted(messages)))} messages, as planned"
