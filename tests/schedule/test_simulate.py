"""The simulator and the frames it gives the animation; what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.errors import UnknownName, UsageError
from labkit.plain import dumps, loads
from labkit.schedule import ALGORITHMS, Layout, Schedule, Transfer, check_schedule, from_steps, programs, simulate, trace


def test_chunks_cover_a_tensor_as_numpy_splits_it() -> None:
    for num_elements in (0, 1, 5, 12, 13):
        for num_chunks in (1, 2, 5, 12):
            pieces = np.array_split(np.arange(num_elements), num_chunks)
            layout = Layout(num_elements, num_chunks)
            assert layout.sizes().tolist() == [len(piece) for piece in pieces]
            assert layout.bounds().tolist() == [layout.start(chunk) for chunk in range(num_chunks + 1)]
    rows = Layout(5, 2, 3)
    assert rows.bounds().tolist() == [rows.start(chunk) for chunk in range(7)] == [0, 3, 5, 8, 10, 13, 15]


@pytest.mark.parametrize("shape", [(-1, 1), (3, 0), (3, 1, 0)])
def test_a_layout_without_chunks_is_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"give a whole number from [01]"):
        Layout(*shape)


@pytest.mark.parametrize(
    ("inputs", "op", "kind", "message"),
    [
        ([[1], [2]], "SUM", UsageError, "2 tensors for 3 ranks; give one per rank"),
        ([[1], [2], [3, 4]], "SUM", UsageError, "rank 2 has 2 elements, not 1"),
        ([[[1]], [2], [3]], "SUM", UsageError, "a tensor is not one-dimensional"),
        ([[1], [2], [3]], "AVG", UsageError, "use SUM, or a dtype of floats"),
        ([[True], [True], [False]], "SUM", UsageError, "SUM of bool is not defined"),
        ([[1], [2], [3]], "SUMM", UnknownName, "did you mean 'SUM'?"),
    ],
)
def test_inputs_that_can_not_be_are_refused(inputs: list[object], op: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        simulate(ALGORITHMS["ring"].schedule(3), inputs, op)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        (Transfer(0, 2, 0, 1), "rank 0 can't send to rank 2; ranks are 0 to 1"),
        (Transfer(1, 1, 0, 1), "a rank sends to another one"),
        (Transfer(0, 1, 0, 3), "chunks 0 to 2 do not exist; chunks are 0 to 1"),
        (Transfer(0, 1, 1, 1), "a transfer has at least one"),
    ],
)
def test_a_schedule_by_hand_is_checked_at_once(transfer: Transfer, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_steps("mine", "all_reduce", 2, 2, [[transfer]])
    assert message in str(caught.value)


def test_pieces_are_one_chunk_each() -> None:
    with pytest.raises(UsageError, match="reduce_scatter on 4 ranks has 4 chunks, not 8"):
        from_steps("mine", "reduce_scatter", 4, 8, [])
    with pytest.raises(UnknownName, match="did you mean 'all_reduce'"):
        from_steps("mine", "allreduce", 4, 8, [])


def test_a_step_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="index can't be 6; give a whole number from 0 to 5"):
        ALGORITHMS["ring"].schedule(4).step(6)


def test_overflow_is_in_the_numbers_and_not_an_error() -> None:
    run = simulate(ALGORITHMS["ring"].schedule(2), [np.array([6e4], np.float16)] * 2)
    assert np.isinf(run.outputs[0]).all()


def test_nan_travels_everywhere() -> None:
    run = simulate(ALGORITHMS["halving-doubling"].schedule(5), [np.array([np.nan, 1.0])] + [np.ones(2)] * 4)
    assert all(np.isnan(output[0]) and output[1] == 5 for output in run.outputs)


def test_a_wrong_schedule_still_runs_and_shows_its_numbers() -> None:
    half = from_steps("half", "all_reduce", 2, 1, [[Transfer(0, 1, 0, 1, True)]])
    run = simulate(half, [[1], [2]])
    assert [output.tolist() for output in run.outputs] == [[1], [3]]
    assert not run.ok


def test_without_checks_nothing_is_looked_for() -> None:
    half = from_steps("half", "all_reduce", 2, 1, [[Transfer(0, 1, 0, 1, True)]])
    assert simulate(half, [[1], [2]], check=False).problems == ()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_frames_end_in_what_the_collective_promises(name: str) -> None:
    schedule = ALGORITHMS[name].schedule(6)
    seen = trace(schedule, 13)
    last, first = seen.origins(len(seen.frames)), seen.origins(-1)
    for rank in range(6):
        for low, high in schedule.start(rank):
            assert all(first[rank, chunk] == (rank,) for chunk in range(low, high))
        for low, high in schedule.end(rank):
            for chunk in range(low, high):
                owner = (schedule.promise.owner(chunk, 6, schedule.root),)
                assert last[rank, chunk] == (tuple(range(6)) if schedule.promise.reduces else owner)
    assert loads(dumps(seen)) == seen
    assert [frame.text.split(",")[0] for frame in seen.frames] == [
        f"Step {i} ({i + 1} of {len(seen.frames)})" for i in range(len(seen.frames))
    ]


def test_frames_count_up_to_the_totals() -> None:
    schedule = ALGORITHMS["ring"].schedule(4)
    run = simulate(schedule, [np.zeros(10, np.float32)] * 4)
    last = trace(schedule, 10).frames[-1]
    assert last.sent_bytes == tuple(run.totals.by_rank.sent_bytes.tolist())
    assert last.sent_messages == tuple(run.totals.by_rank.sent_messages.tolist())


def test_frames_show_what_is_wrong() -> None:
    half = from_steps("half", "all_reduce", 2, 1, [[Transfer(0, 1, 0, 1, True)]])
    seen = trace(half, 3)
    assert [problem.check for problem in seen.problems] == ["end"]
    assert seen.origins(0) == {(0, 0): (0,), (1, 0): (0, 1)}


@pytest.mark.parametrize(
    ("world_size", "itemsize", "message"), [(129, 4, "draw at most 128 ranks"), (2, 3, "itemsize can't be 3; give 1, 2, 4 or 8")]
)
def test_frames_that_can_not_be_drawn_are_refused(world_size: int, itemsize: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trace(ALGORITHMS["naive"].schedule(world_size), 4, itemsize)


def test_programs_travel() -> None:
    for program in programs(ALGORITHMS["double-tree"].schedule(5)):
        assert loads(dumps(program)) == program


def test_a_program_says_what_to_do_in_elements() -> None:
    program = programs(ALGORITHMS["ring"].schedule(2))[1]
    first, second = program.moves(3)
    assert (first.kind, first.to_rank, first.out, first.into, first.reduce) == ("sendrecv", 0, (0, 2), (2, 3), True)
    assert (second.out, second.into, second.reduce) == ((2, 3), (0, 2), False)
    assert program.moves(0) == []
    assert (program.buffer_elements(3), program.elements("end", 3).tolist(), program.needs_copy) == (3, [0, 1, 2], False)


def test_all_to_all_has_a_matrix_for_a_buffer() -> None:
    program = programs(ALGORITHMS["pairwise-all-to-all"].schedule(2))[1]
    assert program.buffer_elements(3) == 6
    assert program.elements("start", 3).tolist() == [3, 4, 5]
    assert program.elements("end", 3).tolist() == [2, 5]


def test_what_is_sent_as_it_was_is_kept_apart() -> None:
    assert {name for name in ALGORITHMS if programs(ALGORITHMS[name].schedule(3))[0].needs_copy} == {"everyone", "unchunked-ring"}


def test_an_empty_schedule_is_right_for_one_rank_only() -> None:
    assert check_schedule(Schedule("nothing", "all_reduce", 1, 1, tuple)) == ()
    assert check_schedule(Schedule("nothing", "all_reduce", 2, 1, tuple)) != ()
