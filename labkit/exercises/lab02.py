"""Checks of the lab "How it works", and the copied ring that it mends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError, join_ranks
from ..schedule import (
    ALGORITHMS,
    Schedule,
    Totals,
    Trace,
    Transfer,
    check_schedule,
    count,
    from_steps,
    make_step,
    simulate,
    trace,
)
from ..schedule.layout import Layout
from ..schedule.model import Step
from ..schedule.records import Comparison, ScheduleRun
from ..units import format_bytes, is_whole
from ..wire import TensorTable
from ._base import NotYet, check, plain, rows

NUM_BYTES = 4096  # of the tensor in the lab's questions
WORLDS = (2, 3, 4, 5, 8)
Move = tuple[int, int, int, bool]


# ---- schedules that are built here
def schedule_of(steps: Sequence[Sequence[Move]], ranks: int, name: str = "my-ring") -> Schedule:
    """A schedule of a learner's steps: lists of (from rank, to rank, chunk, adds), with as many chunks as ranks.

    >>> schedule_of([[(0, 1, 0, True), (1, 0, 1, True)]], 2).num_steps
    1
    """
    try:
        made = [[Transfer(int(a), int(b), int(c), int(c) + 1, bool(adds)) for a, b, c, adds in moves] for moves in steps]
    except (TypeError, ValueError):
        raise NotYet("these are no steps", hint="a step is a list of (from rank, to rank, chunk, adds)") from None
    try:
        return from_steps(name, "all_reduce", ranks, ranks, made)
    except UsageError as error:
        raise NotYet(f"on {ranks} ranks: {error.what}", hint=error.hint) from None


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
        chunks = [second_half(rank, step, ranks) for rank in range(ranks)]
        if not all(is_whole(chunk) and 0 <= chunk < ranks for chunk in chunks):
            raise NotYet(f"on {ranks} ranks you send the chunks {chunks}", hint=f"chunks are 0 to {ranks - 1}: use % ranks")
        sent.append(chunks)

    def steps() -> Iterator[Step]:
        for step in range(ranks - 1):
            yield make_step(numbers, (numbers + 1) % ranks, (numbers - step) % ranks, reduce=True, phase="add up")
        for chunks in sent:
            yield make_step(numbers, (numbers + 1) % ranks, chunks, reduce=False, phase="hand round")

    return Schedule(name, "all_reduce", ranks, ranks, steps)


# ---- naive
@check("02/naive")
def naive(totals: Any) -> str:
    """The counts of the naive schedule."""
    if not isinstance(totals, Totals):
        raise NotYet(f"this check looks at counts, not at {type(totals).__name__}", hint="pass it count(naive, 1024)")
    sent = totals.by_rank.sent_bytes.tolist()
    size = len(sent)
    if totals.num_steps != 2 * (size - 1) or sent[0] != (size - 1) * min(sent):
        raise NotYet("these are not the counts of the naive schedule", hint='make it with ALGORITHMS["naive"].schedule(4)')
    root, other = format_bytes(sent[0]), format_bytes(sent[1])
    return f"{totals.num_steps} steps, one after the other; rank 0 sends {root}, each other {other}."


@check("02/root-bytes")
def root_bytes(answer: Callable[[int, int], float]) -> str:
    """What rank 0 sends in the naive schedule."""
    return _formula(
        answer, "naive", lambda totals: int(totals.by_rank.sent_bytes[0]), "at the end, to whom does rank 0 send it all?"
    )


# ---- tree
@check("02/tree")
def tree(totals: Any) -> str:
    """The counts of the tree."""
    if not isinstance(totals, Totals):
        raise NotYet(f"this check looks at counts, not at {type(totals).__name__}", hint="pass it count(tree, 1024)")
    size = len(totals.by_rank.sent_bytes)
    if totals.num_steps != 2 * (size - 1).bit_length():
        raise NotYet(
            f"{totals.num_steps} steps on {size} ranks are no tree's", hint='make it with ALGORITHMS["binomial-tree"].schedule(8)'
        )
    return f"{totals.num_steps} steps on {size} ranks; the naive way has {2 * (size - 1)}."


@check("02/tree-steps")
def tree_steps(answer: Callable[[int], float]) -> str:
    """The steps of the tree, for any number of ranks."""
    tried = [1, *range(2, 18), 64, 1000]
    for ranks in tried:
        truth, got = ALGORITHMS["binomial-tree"].num_steps(ranks), answer(ranks)
        if got != truth:
            raise NotYet(
                f"on {ranks} ranks you say {got}", hint=f"the schedule has {truth}: each step halves who is left, rounded up"
            )
    return f"right for {len(tried)} worlds: 1,000 ranks need {truth} steps."


# ---- ring
@check("02/ring")
def ring(totals: Any) -> str:
    """The counts of the ring."""
    if not isinstance(totals, Totals):
        raise NotYet(f"this check looks at counts, not at {type(totals).__name__}", hint="pass it count(ring, 1024)")
    sent = totals.by_rank.sent_bytes.tolist()
    size = len(sent)
    if totals.num_steps != 2 * (size - 1) or len(set(sent)) != 1 or sent[0] * size != 2 * (size - 1) * NUM_BYTES:
        raise NotYet(
            "these are not the counts of a ring of 1024 floats", hint='ALGORITHMS["ring"].schedule(4), and count(ring, 1024)'
        )
    return f"{totals.num_steps} steps, and every rank sends {sent[0]} bytes: no root."


@check("02/ring-bytes")
def ring_bytes(answer: Callable[[int, int], float]) -> str:
    """What each rank sends in a ring."""
    return _formula(answer, "ring", lambda totals: int(totals.by_rank.sent_bytes[0]), "how many steps, and how large is a chunk?")


@check("02/my-ring")
def my_ring(answer: Callable[[int], Sequence[Sequence[Move]]]) -> str:
    """A ring by its mechanism as well as its result: neighbours only, a chunk a step, 2(p - 1) steps, the sum."""
    for ranks in WORLDS:
        made = schedule_of(answer(ranks), ranks)
        _check_neighbours(made)
        _check_counts(made)
        problems = check_schedule(made)
        if problems:
            raise NotYet(f"on {ranks} ranks: {problems[0].sentence}", hint="follow one chunk from rank to rank, with trace(...)")
        _check_sum(made)
    return f"the sum on {', '.join(map(str, WORLDS))} ranks; neighbours only, 2(p - 1) steps, 2n(p - 1)/p bytes a rank."


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
                    hint="in a ring only to the neighbour",
                )
            seen.add(away)
    if len(seen) > 1:
        raise NotYet(f"on {ranks} ranks you send to the right and to the left", hint="one direction: (rank + 1) % ranks")


def _check_counts(made: Schedule) -> None:
    ranks = made.world_size
    steps = 2 * (ranks - 1)
    if made.num_steps != steps:
        raise NotYet(
            f"on {ranks} ranks there are {made.num_steps} steps, not {steps}", hint="each chunk goes round twice, less two"
        )
    elements = 60 * ranks
    sent = count(made, elements).by_rank.sent_bytes.tolist()
    wanted = 2 * (ranks - 1) * 4 * elements // ranks
    for rank, num_bytes in enumerate(sent):
        if num_bytes != wanted:
            raise NotYet(
                f"on {ranks} ranks, rank {rank} sends {num_bytes} of {4 * elements} bytes",
                hint=f"{wanted} are enough: a chunk a step",
            )
    for index, step in enumerate(made.steps()):
        if sorted(step.src.tolist()) != list(range(ranks)):
            raise NotYet(f"on {ranks} ranks, step {index}: not every rank sends once", hint="every link is busy in every step")


def _check_sum(made: Schedule) -> None:
    ranks = made.world_size
    for elements in (2 * ranks, 2 * ranks + 1, 1):
        inputs = [np.arange(elements) * 7**rank + rank for rank in range(ranks)]
        outputs = simulate(made, inputs).outputs
        if not all((output == sum(inputs)).all() for output in outputs):
            raise NotYet(f"on {ranks} ranks, {elements} elements: not the sum", hint="which chunks are added, which are copied?")


@check("02/my-ring-live")
def my_ring_live(run: Any) -> str:
    """The learner's ring on the live ranks."""
    _check_run(run)
    return f"on {run.world_size} live ranks: {_proof(run)}."


# ---- the copied ring
@check("02/copied")
def copied(run: Any, table: TensorTable) -> str:
    """The copied ring on the live ranks: as declared, identical, and not the sum."""
    found = rows(table)
    if not isinstance(run, ScheduleRun) or run.name != "copied-ring" or not run.ended:
        raise NotYet("this is no run of the copied ring", hint="run the cell above again")
    if not table.identical:
        raise NotYet("the ranks differ", hint="run the two cells above again")
    if run.world_size == 2:
        return "identical and right: on two ranks this mistake can't be seen. Try LABKIT_RANKS=4."
    if run.agrees:
        raise NotYet("this is the sum already", hint="run copied_ring as it is")
    return f"{plain(found[0])} on all {run.world_size} ranks: every message as declared, identical, and not the sum."


@check("02/first-wrong")
def first_wrong(answer: Callable[[Trace], Any]) -> str:
    """A function that finds the first step in which an unfinished chunk is handed out as finished."""
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
        got = answer(trace(schedule, schedule.num_chunks))
        if (got is None) != (truth is None) or (truth is not None and (isinstance(got, bool) or got != truth)):
            raise NotYet(
                f"for {name} you say {got}", hint="who is in the chunk that a rank copies to another, just before it is sent?"
            )
    return f"right in {len(cases)} cases, without looking at a single number."


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
    for ranks in (2, 3, 4, 5, 8):
        problems = check_schedule(ring_with(answer, ranks))
        if problems:
            raise NotYet(
                f"on {ranks} ranks, {problems[0].sentence}", hint="which chunk is whole on rank r when the first half ends?"
            )
    found = rows(table)
    size = len(found)
    width = len(found[0])
    mean = [float(place + 1 + width * (size - 1) / 2) for place in range(width)]
    for rank, values in found.items():
        if list(values) != mean:
            raise NotYet(f"rank {rank} holds {plain(values)[:8]}", hint='run it with op="avg" on `mine`, into `mended`')
    return f"{plain(mean)} on all {size} ranks: the mean."


# ---- sizes that do not divide
@check("02/chunks")
def chunks(answer: Callable[[int, int], Sequence[int]]) -> str:
    """A function that cuts n elements into chunks without padding."""
    cases = [(10, 4), (12, 4), (3, 4), (1, 3), (0, 2), (17, 5), (1001, 8), (7, 1)]
    for elements, ranks in cases:
        try:
            got = [int(size) for size in answer(elements, ranks)]
        except TypeError:
            raise NotYet(f"for {elements} elements on {ranks} ranks you give no list", hint="return a list of sizes") from None
        here = f"{elements} elements on {ranks} ranks: {got}"
        if len(got) != ranks or sum(got) != elements:
            raise NotYet(here, hint=f"{ranks} sizes, together {elements}: nothing is lost, nothing is padded")
        if max(got) - min(got) > 1:
            raise NotYet(here, hint="the largest chunk decides how long a step takes: no two may differ by more than one")
        if got != Layout(elements, ranks).sizes().tolist():
            raise NotYet(here, hint="all ranks must agree on where a chunk begins: here the longer ones come first")
    return f"right in {len(cases)} cases, also with fewer elements than ranks."


@check("02/uneven")
def uneven(run: Any) -> str:
    """The ring on live ranks with a size that does not divide."""
    _check_run(run)
    if run.num_elements % run.world_size == 0:
        raise NotYet(f"{run.num_elements} elements divide by {run.world_size}", hint="take one element more")
    sent = sorted({each.sent_bytes for each in run.ranks})
    return f"{run.num_elements} elements on {run.world_size} ranks, exact; a rank sends {' or '.join(map(str, sent))} bytes."


# ---- without chunks
@check("02/unchunked")
def unchunked(without: ScheduleRun, chunked: ScheduleRun) -> str:
    """Two rings with one result; one moves p / 2 times as much."""
    for run, name in ((without, "unchunked-ring"), (chunked, "ring")):
        _check_run(run)
        if run.name != name:
            raise NotYet(f"this is a run of {run.name}", hint=f"pass it a run of {name} in this place")
    if without.num_bytes != chunked.num_bytes:
        raise NotYet("the two runs are of two sizes", hint="run both cells again")
    most, few = (sum(each.sent_bytes for each in run.ranks) for run in (without, chunked))
    times = f"{most / few:.3g} times as much on {without.world_size} ranks"
    return f"both right; {format_bytes(most)} travelled against {format_bytes(few)}: {times}."


# ---- on live ranks
@check("02/by-hand")
def by_hand(mine: TensorTable, library: TensorTable) -> str:
    """Sends and receives written out, against the library's all-reduce."""
    ours, theirs = rows(mine), rows(library)
    differ = [rank for rank, values in theirs.items() if ours.get(rank) != values]
    if differ:
        raise NotYet(f"they differ on {join_ranks(differ)}", hint="run the cell above again, on all ranks")
    size = len(theirs)
    if list(theirs[0]) != [place * size * (size + 1) / 2 for place in range(len(theirs[0]))]:
        raise NotYet("this is not the sum", hint="run the cell above again, on all ranks")
    return f"bit by bit what the library gives, on all {size} ranks, {len(theirs[0])} elements."


@check("02/live")
def live(runs: Sequence[ScheduleRun], comparison: Any) -> str:
    """Naive, tree and ring by point-to-point sends: each gives what the library gives, as declared; and their times."""
    names = {"naive", "binomial-tree", "ring"}
    for run in runs:
        _check_run(run)
    missing = names - {run.name for run in runs}
    if missing:
        raise NotYet(f"{sorted(missing)[0]} did not run", hint="run naive, binomial-tree and ring")
    if not isinstance(comparison, Comparison) or not names <= {timing.name for timing in comparison.timings}:
        raise NotYet("this is no comparison of the three", hint='world.compare(["naive", "binomial-tree", "ring"])')
    first = min((timing for timing in comparison.timings if timing.name in names), key=lambda timing: timing.median_s)
    return f"{len(runs)} algorithms, one result, the library's; the quickest here was {first.name}."


# ---- shared
def _formula(answer: Callable[[int, int], Any], name: str, truth: Callable[[Totals], int], hint: str) -> str:
    tried = [(ranks, 64 * ranks) for ranks in (*range(2, 18), 64)]
    for ranks, elements in tried:
        got, wanted = answer(ranks, 4 * elements), truth(count(ALGORITHMS[name].schedule(ranks), elements))
        if not isinstance(got, (int, float)) or abs(got - wanted) > 1e-6 * wanted:
            raise NotYet(f"for {4 * elements} bytes on {ranks} ranks you say {got}, the schedule counts {wanted}", hint=hint)
    return f"as counted in {len(tried)} schedules, from 2 to 64 ranks."


def _check_run(run: Any) -> None:
    if not isinstance(run, ScheduleRun):
        raise NotYet(f"this check looks at a run, not at {type(run).__name__}", hint="pass it what world.run_schedule returned")
    if not run.ended:
        raise NotYet(f"{run.name} did not end", hint="world.diagnose() says why, world.recover() frees the ranks")
    if not run.agrees:
        wrong = join_ranks([each.rank for each in run.ranks if not each.agrees])
        raise NotYet(
            f"{run.name} gave other numbers than the library on {wrong}", hint="hold its schedule against check_schedule"
        )
    if not run.counted:
        raise NotYet(f"{run.name} did not send what its schedule says", hint="run the cell above again")


def _proof(run: Any) -> str:
    messages: set[Any] = {each.sent_messages for each in run.ranks}
    return f"the library's numbers, {' or '.join(map(str, sorted(messages)))} messages from each rank, as declared"
