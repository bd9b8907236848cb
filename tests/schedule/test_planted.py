"""Broken schedules, each caught by the check that is there for it: the checks can fail."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from labkit.errors import UsageError
from labkit.schedule import (
    ALGORITHMS,
    Move,
    Schedule,
    Share,
    Transfer,
    check_programs,
    check_schedule,
    compose,
    from_steps,
    programs,
    simulate,
)
from labkit.schedule.model import make_step

from .conformance import wrong_claims, wrong_contributions, wrong_results, wrong_waits


def copied_ring(world_size: int = 4) -> Schedule:
    """The ring that is copied from page to page: right up to the second half, which sends the wrong chunk."""

    def steps():
        rank = np.arange(world_size)
        for step in range(world_size - 1):
            yield make_step(rank, (rank + 1) % world_size, (rank - step) % world_size, reduce=True)
        for step in range(world_size - 1):
            yield make_step(rank, (rank + 1) % world_size, (rank - 1 - step) % world_size, reduce=False)

    return Schedule("copied-ring", "all_reduce", world_size, world_size, steps)


def test_the_copied_ring_ends_identical_and_wrong() -> None:
    inputs = [np.arange(1, 9) + 8 * rank for rank in range(4)]
    run = simulate(copied_ring(), inputs)
    assert [output.tolist() for output in run.outputs] == [[10, 12, 30, 32, 50, 52, 38, 40]] * 4
    assert {problem.check for problem in run.problems} == {"end"}
    assert run.problems[0].sentence == "rank 0 ends with chunk 0 holding the part of ranks 0 and 1"
    assert wrong_results(copied_ring(), 8) != []
    assert wrong_waits(copied_ring()) == []  # nothing hangs, nobody complains: only the numbers are wrong


def test_the_mended_ring_is_right() -> None:
    inputs = [np.arange(1, 9) + 8 * rank for rank in range(4)]
    run = simulate(ALGORITHMS["ring"].schedule(4), inputs)
    assert [output.tolist() for output in run.outputs] == [[52, 56, 60, 64, 68, 72, 76, 80]] * 4
    assert run.ok
    mean = simulate(ALGORITHMS["ring"].schedule(4), [each.astype(float) for each in inputs], "AVG")
    assert [output.tolist() for output in mean.outputs] == [[13, 14, 15, 16, 17, 18, 19, 20]] * 4


def add(src: int, dst: int, chunk: int = 0) -> Transfer:
    return Transfer(src, dst, chunk, chunk + 1, True)


def copy(src: int, dst: int, chunk: int = 0) -> Transfer:
    return Transfer(src, dst, chunk, chunk + 1, False)


PLANTED = {
    "double": from_steps("twice", "all_reduce", 2, 1, [[add(0, 1), add(1, 0)], [add(0, 1), add(1, 0)]]),
    "absent": from_steps("from nothing", "broadcast", 3, 1, [[copy(1, 2)], [copy(0, 1)]]),
    "clash": from_steps("both at once", "broadcast", 3, 1, [[copy(0, 1)], [copy(0, 2), copy(1, 2)]]),
    "end": from_steps("half", "all_reduce", 2, 1, [[add(0, 1)]]),
}


@pytest.mark.parametrize("check", PLANTED)
def test_each_check_finds_its_fault(check: str) -> None:
    problems = check_schedule(PLANTED[check])
    assert check in {problem.check for problem in problems}
    assert wrong_contributions(PLANTED[check]) == [problem.sentence for problem in problems]


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        ("double", "step 1: rank 1 adds to chunk 0 what is in it already"),
        ("absent", "step 0: rank 1 sends chunk 0, which it does not have"),
        ("clash", "step 1: rank 2 gets chunk 0 from two ranks at once, and at least one is to be copied"),
        ("end", "rank 0 ends with chunk 0 holding the part of rank 0"),
    ],
)
def test_a_problem_names_step_rank_and_chunk(check: str, sentence: str) -> None:
    assert sentence in [problem.sentence for problem in check_schedule(PLANTED[check])]


def test_adding_onto_nothing_is_found() -> None:
    schedule = from_steps("adds", "broadcast", 2, 1, [[add(0, 1)]])
    assert check_schedule(schedule)[0].sentence == "step 0: rank 1 adds onto chunk 0, of which it has nothing"


def large(steps_again: int) -> Schedule:
    """A ring too large for exact sets, with some steps done again."""
    ring = ALGORITHMS["ring"].schedule(1024)

    def steps():
        for index, step in enumerate(ring.steps()):
            yield from [step] * (1 + (index == steps_again))

    return Schedule("again", "all_reduce", 1024, 1024, steps)


def test_a_double_count_is_found_in_a_world_too_large_for_exact_sets() -> None:
    problems = check_schedule(large(3))
    assert {problem.check for problem in problems} <= {"double", "end"}
    assert problems


def test_many_problems_of_one_kind_are_not_listed_without_end() -> None:
    assert len(check_schedule(copied_ring(17))) <= 16


def test_sending_before_receiving_all_round_a_ring_is_a_deadlock() -> None:
    right = programs(ALGORITHMS["ring"].schedule(3))
    wrong = [dataclasses.replace(program, chunk_moves=tuple(halves(program.chunk_moves))) for program in right]
    (problem,) = check_programs(wrong)
    assert problem.check == "deadlock"
    assert problem.sentence == (
        "step 0: rank 0 waits to send to rank 1, rank 1 waits to send to rank 2, rank 2 waits to send to rank 0"
    )


def halves(moves: tuple[Move, ...]) -> list[Move]:
    """Each exchange as a blocking send and then a receive."""
    found = []
    for each in moves:
        found.append(dataclasses.replace(each, kind="send", from_rank=-1, into=(0, 0), reduce=False))
        found.append(dataclasses.replace(each, kind="recv", to_rank=-1, out=(0, 0)))
    return found


def test_if_one_rank_receives_first_the_ring_runs() -> None:
    right = programs(ALGORITHMS["ring"].schedule(3))
    mended = [dataclasses.replace(program, chunk_moves=tuple(halves(program.chunk_moves))) for program in right]
    turned = [each for pair in zip(mended[0].chunk_moves[1::2], mended[0].chunk_moves[::2], strict=True) for each in pair]
    mended[0] = dataclasses.replace(mended[0], chunk_moves=tuple(turned))
    assert check_programs(mended) == ()


def test_a_rank_that_is_done_too_early_leaves_the_others_waiting() -> None:
    first, second = programs(ALGORITHMS["recursive-doubling"].schedule(2))
    (problem,) = check_programs([first, dataclasses.replace(second, chunk_moves=())])
    assert problem.sentence == "step 0: rank 0 waits to send to rank 1, rank 1, which is done"


def test_a_send_that_meets_the_wrong_receive_is_found() -> None:
    first, second = programs(ALGORITHMS["chain-broadcast"].schedule(2))
    turned = dataclasses.replace(second, chunk_moves=tuple(reversed(second.chunk_moves)))
    (problem,) = check_programs([first, turned])
    assert (problem.check, problem.sentence) == ("mismatch", "step 0: rank 0 sends chunk 0 and rank 1 expects chunk 3")


def test_a_chunk_overwritten_before_it_is_sent_has_no_program() -> None:
    schedule = from_steps("late", "all_reduce", 4, 1, [[add(0, 1), add(1, 2), add(1, 3)]])
    with pytest.raises(UsageError, match="rank 1 would overwrite chunk 0 before it has sent it to rank 3; make it two steps"):
        programs(schedule)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"steps": lambda world_size: world_size}, "steps, not 4"),
        ({"share": lambda rank, world_size: Share("member", 5, Fraction(3, 2))}, "6 messages, not 5"),
        ({"share": lambda rank, world_size: Share("member", 6, Fraction(1))}, "sends 48 bytes, not 32"),
        ({"path": lambda world_size: dataclasses.replace(ALGORITHMS["ring"].critical(4), messages=1)}, "messages, not 1"),
        ({"path": lambda world_size: dataclasses.replace(ALGORITHMS["ring"].critical(4), reduced=Fraction(2))}, "reduces 24"),
    ],
)
def test_a_wrong_claim_is_found(change: dict[str, object], complaint: str) -> None:
    wrong = dataclasses.replace(ALGORITHMS["ring"], **change)
    assert any(complaint in text for text in wrong_claims(wrong, 4, 8))
    assert wrong_claims(ALGORITHMS["ring"], 4, 8) == []


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 8, 17, 64])
def test_reduce_scatter_and_all_gather_are_the_ring_transfer_by_transfer(world_size: int) -> None:
    halves = [ALGORITHMS[name].schedule(world_size) for name in ("ring-reduce-scatter", "ring-all-gather")]
    composed = compose(*halves)
    assert list(composed.steps()) == list(ALGORITHMS["ring"].schedule(world_size).steps())
    assert wrong_results(composed, 3 * world_size + 1) == []


@pytest.mark.parametrize("world_size", range(1, 13))
@pytest.mark.parametrize("scatter", ["ring-reduce-scatter", "recursive-halving"])
@pytest.mark.parametrize("gather", ["ring-all-gather", "doubling-all-gather"])
def test_any_reduce_scatter_and_any_all_gather_make_an_all_reduce(scatter: str, gather: str, world_size: int) -> None:
    composed = compose(ALGORITHMS[scatter].schedule(world_size), ALGORITHMS[gather].schedule(world_size))
    assert wrong_results(composed, 2 * world_size + 1) == []
    assert wrong_waits(composed) == []


def test_halves_that_do_not_fit_are_refused() -> None:
    ring = ALGORITHMS["ring-all-gather"]
    with pytest.raises(UsageError, match="compose a reduce-scatter and an all-gather"):
        compose(ALGORITHMS["ring"].schedule(3), ring.schedule(3))
    with pytest.raises(UsageError, match="both need the same world size"):
        compose(ALGORITHMS["ring-reduce-scatter"].schedule(3), ring.schedule(4))


def test_a_product_of_halves_that_overflows_is_no_fault_of_the_algorithm() -> None:
    assert wrong_results(ALGORITHMS["everyone"].schedule(16), 24, "PRODUCT", "float16", 0) == []
