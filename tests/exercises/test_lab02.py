"""Each check of lab 02 takes the right answer and refuses the wrong ones that people give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.exercises.guess import Answer
from labkit.exercises.lab02_rings import copied_ring, ring_with, schedule_of
from labkit.schedule import ALGORITHMS, Schedule, Trace, check_schedule, count, simulate
from labkit.schedule.collective import Layout
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Timing
from labkit.wire import TensorTable

Table = Callable[..., TensorTable]
Steps = list[list[tuple[int, int, int, bool]]]
SIZES = (2, 3, 4)


def refused(name: str, *answer: Any) -> str:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    return caught.value.what


def run_of(schedule: Schedule, num_elements: int = 1200, wrong: Sequence[int] = (), *, ended: bool = True) -> ScheduleRun:
    loads = count(schedule, num_elements).by_rank
    columns = (loads.sent_messages, loads.received_messages, loads.sent_bytes, loads.received_bytes)
    counts = tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in zip(*columns, strict=True))
    ranks = tuple(RankRun(rank, 0.1, (), *each, agrees=rank not in wrong) for rank, each in enumerate(counts))
    return ScheduleRun(
        schedule.name, schedule.collective, schedule.world_size, num_elements, "float32", "SUM", 4 * num_elements,
        schedule.num_steps, False, 0.1, ranks if ended else ranks[1:], counts,
    )  # fmt: skip


def live(name: str, size: int = 4, num_elements: int = 1200) -> ScheduleRun:
    return run_of(ALGORITHMS[name].schedule(size), num_elements)


# ---- naive and tree
def test_naive() -> None:
    totals = count(ALGORITHMS["naive"].schedule(4), 1024)
    assert CHECKS["02/naive"](totals).answer == Answer(12288, "bytes")
    assert CHECKS["02/naive"](totals) == "6 steps, one after the other; rank 0 sends 12288 bytes, every other rank 4096."
    assert "not the counts of the naive" in refused("02/naive", count(ALGORITHMS["ring"].schedule(4), 1024))
    assert "not int" in refused("02/naive", 12288)


def test_root_bytes() -> None:
    assert "2 to 64 ranks" in CHECKS["02/root-bytes"](lambda ranks, num_bytes: (ranks - 1) * num_bytes)
    for wrong in (
        lambda ranks, num_bytes: ranks * num_bytes,
        lambda ranks, num_bytes: num_bytes,
        lambda ranks, num_bytes: 2 * (ranks - 1) * num_bytes,
        lambda ranks, num_bytes: 3 * num_bytes,
        lambda ranks, num_bytes: ranks - 1,
        lambda ranks, num_bytes: None,
    ):
        assert "the schedule counts" in refused("02/root-bytes", wrong)


def test_tree() -> None:
    assert CHECKS["02/tree"](count(ALGORITHMS["binomial-tree"].schedule(8), 1024)).answer == Answer(6, "steps")
    assert CHECKS["02/tree"](count(ALGORITHMS["binomial-tree"].schedule(8), 1024)) == "6 steps on 8 ranks; the naive way has 14."
    assert "a tree does not take" in refused("02/tree", count(ALGORITHMS["naive"].schedule(8), 1024))
    assert "not int" in refused("02/tree", 6)


def test_tree_steps() -> None:
    assert "1,000 ranks need 20 steps" in CHECKS["02/tree-steps"](lambda ranks: 2 * (ranks - 1).bit_length())
    for wrong in (
        lambda ranks: 2 * ranks.bit_length(),
        lambda ranks: (ranks - 1).bit_length(),
        lambda ranks: 2 * (ranks.bit_length() - 1),
        lambda ranks: 2 * (ranks - 1),
        lambda ranks: 6,
        lambda ranks: None,
    ):
        assert "you say" in refused("02/tree-steps", wrong)


# ---- ring
def test_ring() -> None:
    assert CHECKS["02/ring"](count(ALGORITHMS["ring"].schedule(4), 1024)).answer == Answer(6144, "bytes")
    assert "every rank sends 6144 bytes: there is no root" in CHECKS["02/ring"](count(ALGORITHMS["ring"].schedule(4), 1024))
    for other in ("naive", "unchunked-ring", "binomial-tree"):
        refused("02/ring", count(ALGORITHMS[other].schedule(4), 1024))
    refused("02/ring", 6144)


def test_ring_bytes() -> None:
    assert "right for" in CHECKS["02/ring-bytes"](lambda ranks, num_bytes: 2 * (ranks - 1) / ranks * num_bytes)
    for wrong in (
        lambda ranks, num_bytes: 2 * num_bytes,
        lambda ranks, num_bytes: (ranks - 1) * num_bytes / ranks,
        lambda ranks, num_bytes: 2 * (ranks - 1) * num_bytes,
        lambda ranks, num_bytes: 2 * num_bytes / ranks,
        lambda ranks, num_bytes: 1.5 * num_bytes,
    ):
        assert "you say" in refused("02/ring-bytes", wrong)


Rule = Callable[[int, int, int], tuple[int, int, bool]]


def ring_by(rule: Rule, num_steps: Callable[[int], int] = lambda ranks: 2 * (ranks - 1)) -> Callable[[int], Steps]:
    def build(ranks: int) -> Steps:
        return [[(rank, *rule(rank, step, ranks)) for rank in range(ranks)] for step in range(num_steps(ranks))]

    return build


def as_steps(name: str) -> Callable[[int], Steps]:
    """An algorithm in the form of the exercise, chunk by chunk."""

    def build(ranks: int) -> Steps:
        schedule = ALGORITHMS[name].schedule(ranks)
        spread = schedule.num_chunks == 1
        return [
            [
                (move.src, move.dst, chunk, move.reduce)
                for move in step.transfers()
                for chunk in (range(ranks) if spread else range(move.chunk_lo, move.chunk_hi))
            ]
            for step in schedule.steps()
        ]

    return build


@pytest.mark.parametrize(
    "rule",
    [
        lambda rank, step, ranks: ((rank + 1) % ranks, (rank - 1 - step) % ranks, step < ranks - 1),
        lambda rank, step, ranks: ((rank + 1) % ranks, (rank - step) % ranks, step < ranks - 1),
        lambda rank, step, ranks: ((rank - 1) % ranks, (rank + step) % ranks, step < ranks - 1),
    ],
)
def test_my_ring(rule: Rule) -> None:
    assert "neighbours only" in CHECKS["02/my-ring"](ring_by(rule))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, (rank - step) % ranks, True)), "what is in it already"),
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, (rank - step) % ranks, step < ranks)), "in it already"),
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, (rank + step) % ranks, step < ranks - 1)), "on 3 ranks"),
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, rank, step < ranks - 1)), "on 2 ranks"),
        (ring_by(lambda rank, step, ranks: (rank + 1, (rank - step) % ranks, step < ranks - 1)), "rank 1 sends to rank 2"),
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, ranks, step < ranks - 1)), "on 2 ranks, step 0: chunk 2"),
        (ring_by(lambda rank, step, ranks: ((rank + 1) % ranks, rank - step, step < ranks - 1)), "on 2 ranks, step 1: chunk -1"),
        (ring_by(lambda rank, step, ranks: ((rank - step) % ranks, rank, True)), "rank 0 can't send to rank 0"),
        (as_steps("naive"), "sends"),
        (as_steps("everyone"), "1 steps, not 2"),
        (as_steps("unchunked-ring"), "steps"),
        (as_steps("halving-doubling"), "to the right and to the left"),
        (as_steps("binomial-tree"), "not every rank sends exactly once"),
        (lambda ranks: as_steps("ring")(ranks) + as_steps("ring")(ranks)[-1:], "3 steps, not 2"),
        (lambda ranks: as_steps("ring")(ranks)[:-1], "1 steps, not 2"),
        (lambda ranks: [move for step in as_steps("ring")(ranks) for move in step], "these are not steps"),
        (lambda ranks: None, "these are not steps"),
        (
            lambda ranks: [
                [(m.src, m.dst, m.chunk_lo, m.reduce) for m in step.transfers()] for step in copied_ring(ranks).steps()
            ],
            "on 3 ranks",
        ),
    ],
)  # fmt: skip
def test_a_ring_that_is_none(wrong: Callable[[int], Any], says: str) -> None:
    assert says in refused("02/my-ring", wrong)


def test_my_ring_both_ways_is_refused() -> None:
    def both(ranks: int) -> Steps:
        right = as_steps("ring")(ranks)
        left = [[(-a % ranks, -b % ranks, -c % ranks, adds) for a, b, c, adds in step] for step in right]
        return right[: ranks - 1] + left[ranks - 1 :]

    assert "to the right and to the left" in refused("02/my-ring", both)


@pytest.mark.parametrize("size", SIZES)
def test_my_ring_live(size: int) -> None:
    schedule = schedule_of(as_steps("ring")(size), size)
    assert "as planned" in CHECKS["02/my-ring-live"](run_of(schedule, 1000))
    assert "gave different numbers on rank 1" in refused("02/my-ring-live", run_of(schedule, 1000, wrong=(1,)))
    assert "did not end" in refused("02/my-ring-live", run_of(schedule, 1000, ended=False))
    more = run_of(schedule, 1000)
    more = dataclasses.replace(more, declared=((0, 0, 0, 0), *more.declared[1:]))
    assert "did not send what its schedule says" in refused("02/my-ring-live", more)
    refused("02/my-ring-live", None)


# ---- the copied ring
FAMOUS = [10, 12, 30, 32, 50, 52, 38, 40]


def famous_inputs(size: int) -> list[list[int]]:
    return [[2 * size * rank + place + 1 for place in range(2 * size)] for rank in range(size)]


def test_the_copied_ring_is_the_famous_one() -> None:
    run = simulate(copied_ring(4), famous_inputs(4))
    assert [output.tolist() for output in run.outputs] == [FAMOUS] * 4
    ours, right = (count(made, 24).by_rank for made in (copied_ring(4), ALGORITHMS["ring"].schedule(4)))
    assert (ours.sent_bytes == right.sent_bytes).all()
    assert (ours.sent_messages == right.sent_messages).all()


def test_copied(table: Table) -> None:
    run = run_of(copied_ring(4), 8, wrong=(0, 1, 2, 3))
    says = CHECKS["02/copied"](run, table([FAMOUS] * 4))
    assert says.startswith(str(FAMOUS))
    assert says.endswith("not the sum. [52, 56, ... 80] would be right.")
    on_two = CHECKS["02/copied"](run_of(copied_ring(2), 4), table([[6, 8, 10, 12]] * 2))
    assert on_two.startswith("identical and right: with two ranks this mistake has no effect")
    assert "%env LABKIT_RANKS=4" in on_two
    assert "the ranks differ" in refused("02/copied", run, table([FAMOUS] * 3 + [[0] * 8]))
    assert "already the sum" in refused("02/copied", run_of(copied_ring(4), 8), table([FAMOUS] * 4))
    assert "not a run of the copied ring" in refused("02/copied", live("ring"), table([FAMOUS] * 4))
    assert "missing on rank 0" in refused("02/copied", run, table([FAMOUS] * 4, missing=(0,)))


@pytest.mark.parametrize("size", [3, 4, 5])
def test_the_sum_that_the_copied_ring_misses_is_the_right_one(table: Table, size: int) -> None:
    inputs = famous_inputs(size)
    right = [sum(column) for column in zip(*inputs, strict=True)]
    wrong = [output.tolist() for output in simulate(copied_ring(size), inputs).outputs]
    says = CHECKS["02/copied"](run_of(copied_ring(size), 2 * size, wrong=range(size)), table(wrong))
    assert f"[{right[0]}, {right[1]}, ... {right[-1]}] would be right" in says


def right_property(seen: Trace) -> int | None:
    for frame in seen.frames:
        for move in frame.transfers:
            if not move.reduce and len(seen.origins(frame.step - 1)[move.src, move.chunk_lo]) < seen.world_size:
                return frame.step
    return None


def at_the_receiver(seen: Trace) -> int | None:
    for frame in seen.frames:
        for move in frame.transfers:
            if not move.reduce and len(seen.origins(frame.step - 1)[move.dst, move.chunk_lo]) < seen.world_size:
                return frame.step
    return None


def whatever_moves(seen: Trace) -> int | None:
    for frame in seen.frames:
        for move in frame.transfers:
            if len(seen.origins(frame.step - 1)[move.src, move.chunk_lo]) < seen.world_size:
                return frame.step
    return None


def counted_from_one(seen: Trace) -> int | None:
    found = right_property(seen)
    return None if found is None else found + 1


def at_the_end(seen: Trace) -> int | None:
    whole = all(len(who) == seen.world_size for who in seen.origins(len(seen.frames) - 1).values())
    return None if whole else seen.world_size - 1


def test_first_wrong() -> None:
    assert "right in 12 cases" in CHECKS["02/first-wrong"](right_property)
    for wrong in (
        at_the_receiver,
        whatever_moves,
        counted_from_one,
        at_the_end,
        lambda seen: None,
        lambda seen: seen.world_size - 1,
        lambda seen: False,
        lambda seen: right_property(seen) or 0,
    ):
        assert refused("02/first-wrong", wrong).startswith("for ")


@pytest.mark.parametrize("size", SIZES)
def test_mend(table: Table, size: int) -> None:
    inputs = famous_inputs(size)
    mean = [sum(column) / size for column in zip(*inputs, strict=True)]
    right = lambda rank, step, ranks: (rank + 1 - step) % ranks  # noqa: E731
    assert check_schedule(ring_with(right, size)) == ()
    assert CHECKS["02/mend"](right, table([mean] * size)).endswith(f"on all {size} ranks: the mean.")
    assert "rank 0 holds" in refused("02/mend", right, table([[size * value for value in mean]] * size))
    assert "rank 0 holds" in refused("02/mend", right, table([inputs[0]] * size))
    for wrong in (
        lambda rank, step, ranks: (rank - 1 - step) % ranks,
        lambda rank, step, ranks: (rank - step) % ranks,
        lambda rank, step, ranks: (rank + 1 + step) % ranks,
        lambda rank, step, ranks: (rank + 1) % ranks,
        lambda rank, step, ranks: (rank + 3 - step) % ranks,
        lambda rank, step, ranks: (rank + 1 - step) % 4,
        lambda rank, step, ranks: rank + 1 - step,
        lambda rank, step, ranks: None,
    ):
        refused("02/mend", wrong, table([mean] * size))


# ---- sizes, chunks
def test_chunks() -> None:
    assert "right in 8 cases" in CHECKS["02/chunks"](lambda n, p: Layout(n, p).sizes().tolist())
    for wrong in (
        lambda n, p: [n // p] * p,
        lambda n, p: [-(-n // p)] * p,
        lambda n, p: [n // p] * (p - 1) + [n // p + n % p],
        lambda n, p: Layout(n, p).sizes().tolist()[::-1],
        lambda n, p: [-(-n // p)] * (p - 1) + [n - (p - 1) * -(-n // p)],
        lambda n, p: [size for size in Layout(n, p).sizes().tolist() if size],
        lambda n, p: None,
    ):
        refused("02/chunks", wrong)


def test_uneven() -> None:
    assert "1001 elements on 4 ranks, exact" in CHECKS["02/uneven"](live("ring", 4, 1001))
    assert "1000 elements divide evenly by 4" in refused("02/uneven", live("ring", 4, 1000))
    refused("02/uneven", run_of(ALGORITHMS["ring"].schedule(4), 1001, wrong=(3,)))


@pytest.mark.parametrize(("size", "times"), [(2, "1 times"), (3, "1.5 times"), (4, "2 times")])
def test_unchunked(size: int, times: str) -> None:
    assert CHECKS["02/unchunked"](live("unchunked-ring", size), live("ring", size)).answer == Answer(size / 2, "times as many")
    assert times in CHECKS["02/unchunked"](live("unchunked-ring", size), live("ring", size))
    assert "a run of ring" in refused("02/unchunked", live("ring", size), live("unchunked-ring", size))
    assert "different sizes" in refused("02/unchunked", live("unchunked-ring", size), live("ring", size, 600))
    refused("02/unchunked", live("unchunked-ring", size), run_of(ALGORITHMS["ring"].schedule(size), 1200, wrong=(0,)))


# ---- live
@pytest.mark.parametrize("size", SIZES)
def test_by_hand(table: Table, size: int) -> None:
    total = [place * size * (size + 1) / 2 for place in range(11)]
    assert "bit by bit" in CHECKS["02/by-hand"](table([total] * size), table([total] * size))
    assert "they differ on rank 1" in refused(
        "02/by-hand", table([total, [0] * 11, *[total] * (size - 2)]), table([total] * size)
    )
    assert "not the sum" in refused("02/by-hand", table([[1] * 11] * size), table([[1] * 11] * size))


def test_live() -> None:
    names = ("naive", "binomial-tree", "ring")
    runs = [live(name) for name in names]
    times = {"naive": 3.0, "binomial-tree": 2.0, "ring": 1.0, "library": 0.5}
    beside = Comparison(4, 1 << 20, "float32", tuple(Timing(name, (time,)) for name, time in times.items()))
    assert CHECKS["02/live"](runs, beside).answer == Answer("ring")
    assert CHECKS["02/live"](runs, beside) == "3 algorithms gave the library's result; the fastest here was ring."
    assert "ring did not run" in refused("02/live", runs[:2], beside)
    assert "not a comparison" in refused("02/live", runs, None)
    assert "not a comparison" in refused("02/live", runs, dataclasses.replace(beside, timings=beside.timings[1:]))
    refused("02/live", [*runs[:2], run_of(ALGORITHMS["ring"].schedule(4), wrong=(2,))], beside)


def test_every_check_of_the_lab_is_tested_here() -> None:
    text = __import__("pathlib").Path(__file__).read_text()
    assert [name for name in CHECKS if name.startswith("02/") and f'"{name}"' not in text] == []
