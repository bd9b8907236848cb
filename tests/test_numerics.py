"""Who differs, where, and by how much."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from labkit.errors import UsageError
from labkit.numerics import Comparison, compare, compare_samples, majority
from labkit.testing import fake_world
from labkit.wire import TensorSample, TensorTable

DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint64", "bool", "complex64"]


def test_one_element_of_one_rank() -> None:
    values = {rank: numpy.arange(6.0).reshape(2, 3) for rank in range(4)}
    values[2] = values[2].copy()
    values[2][1, 0] += 0.25
    found = compare(values)
    assert (found.sides, found.culprits, found.agree, found.tie) == (((0, 1, 3), (2,)), (2,), False, False)
    (difference,) = found.differences
    assert (difference.first, difference.num_different, difference.num_compared) == ((1, 0), 1, 6)
    assert (difference.here, difference.there, difference.largest) == (3.25, 3.0, 0.25)
    assert str(found) == "rank 2 differs from rank 0 in 1 of 6 elements, first at [1, 0]: 3.25, not 3; by at most 0.25"


@pytest.mark.parametrize(
    ("values", "sides", "text"),
    [
        ({}, (), "no rank agrees"),
        ({0: [1.0]}, ((0,),), "rank 0 agrees"),
        ({0: [1.0], 1: [1.0]}, ((0, 1),), "ranks 0 and 1 agree"),
        ({0: [1, 2], 1: [1, 2, 3]}, ((0,), (1,)), "rank 1 has shape (3,), not (2,)"),
        ({0: [1, 2], 1: [1.0, 2.0]}, ((0,), (1,)), "rank 1 has float64, not int64"),
        ({0: [1, 2], 1: [[1.0]]}, ((0,), (1,)), "rank 1 has shape (1, 1), not (2,) and float64, not int64"),
        ({0: 3, 1: 4, 2: 3}, ((0, 2), (1,)),
         "rank 1 differs from rank 0 in 1 of 1 elements, first at []: 4, not 3; by at most 1"),
        ({0: [numpy.nan], 1: [numpy.nan]}, ((0, 1),), "ranks 0 and 1 agree"),
        ({0: [numpy.nan, 1], 1: [0.0, 1]}, ((0,), (1,)),
         "rank 1 differs from rank 0 in 1 of 2 elements, first at [0]: 0, not nan; by at most inf"),
        ({0: [numpy.inf], 1: [numpy.inf], 2: [-numpy.inf]}, ((0, 1), (2,)),
         "rank 2 differs from rank 0 in 1 of 1 elements, first at [0]: -inf, not inf; by at most inf"),
        ({0: [2**60], 1: [2**60 + 1]}, ((0,), (1,)),
         "rank 1 differs from rank 0 in 1 of 1 elements, first at [0]: 1.15292e+18, not 1.15292e+18; by at most 1"),
        ({0: [-(2**63)], 1: [2**63 - 1]}, ((0,), (1,)),
         "rank 1 differs from rank 0 in 1 of 1 elements, first at [0]: 9.22337e+18, not -9.22337e+18; by at most 1.84467e+19"),
        ({0: [True, False], 1: [True, True]}, ((0,), (1,)),
         "rank 1 differs from rank 0 in 1 of 2 elements, first at [1]: 1, not 0; by at most 1"),
        ({0: [1 + 1j], 1: [1 - 1j]}, ((0,), (1,)),
         "rank 1 differs from rank 0 in 1 of 1 elements, first at [0]: 1.41421, not 1.41421; by at most 2"),
        ({0: numpy.zeros((0, 3)), 1: numpy.zeros((0, 3))}, ((0, 1),), "ranks 0 and 1 agree"),
    ],
)  # fmt: skip
def test_values(values: dict, sides: tuple, text: str) -> None:
    found = compare(values)
    assert found.sides == sides
    assert str(found) == text


def test_nobody_has_the_majority() -> None:
    found = compare({0: [1.0], 1: [1.0], 2: [2.0], 3: [2.0]})
    assert (found.tie, found.culprits) == (True, (0, 1, 2, 3))


def test_a_tolerance_gathers_around_the_rank_most_are_close_to() -> None:
    values = {0: [1.0], 1: [1.1], 2: [1.2], 3: [5.0]}
    found = compare(values, atol=0.11)
    assert found.culprits == (3,)
    assert found.sides[0][0] == 1, "rank 1 is close to both of its neighbours"
    assert compare(values).tie
    assert compare({0: [1e6], 1: [1e6 + 1]}, rtol=1e-5).agree
    assert not compare({0: [numpy.inf], 1: [1.0]}, rtol=0.5, atol=1e9).agree


def test_what_can_not_be_compared() -> None:
    with pytest.raises(UsageError, match="not numbers"):
        compare({0: ["a"], 1: ["b"]})
    with pytest.raises(UsageError, match="negative"):
        compare({0: [1]}, atol=-1)


def test_majority() -> None:
    assert majority({}) == ()
    assert majority({3: "b", 0: "a", 1: "b", 2: "c"}) == ((1, 3), (0,), (2,))


@given(st.data(), st.sampled_from(DTYPES), st.integers(2, 5))
def test_a_change_of_one_rank_is_found_at_its_place(data: st.DataObject, dtype: str, ranks: int) -> None:
    array = data.draw(arrays(dtype, array_shapes(max_dims=3, max_side=4)))
    assert compare(dict.fromkeys(range(ranks), array)).agree
    at = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    other = array.copy()
    other[at] = data.draw(st.sampled_from([0, 1])) if array[at] != 0 else 1
    if (array[at] == other[at]) or ranks == 2:
        return
    culprit = data.draw(st.integers(0, ranks - 1))
    found = compare({rank: other if rank == culprit else array for rank in range(ranks)})
    assert found.culprits == (culprit,)
    assert (found.differences[0].first, found.differences[0].num_different) == (at, 1)
    assert found.differences[0].largest > 0


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=6), st.floats(0, 1))
def test_every_rank_is_on_one_side(values: list[float], atol: float) -> None:
    found = compare({rank: [value] for rank, value in enumerate(values)}, atol=atol)
    assert sorted(rank for side in found.sides for rank in side) == list(range(len(values)))
    assert len(found.differences) == len(values) - len(found.sides[0])
    assert [len(side) for side in found.sides] == sorted((len(side) for side in found.sides), reverse=True)


# ---- samples
def sample(rank: int, values: tuple[float, ...], indices: tuple[int, ...], digest: str, shape=(4, 4), dtype="float32"):
    return TensorSample(rank, "x", shape, dtype, "cpu", 64, values, indices, digest=digest)


def test_samples_say_where_in_the_whole_tensor() -> None:
    same = [sample(rank, (1.0, 2.0), (0, 9), "a") for rank in range(2)]
    found = compare_samples(TensorTable("x", (*same, sample(2, (1.0, 2.5), (0, 9), "b"))))
    assert (found.culprits, found.differences[0].first) == ((2,), (2, 1))
    hidden = compare_samples(TensorTable("x", (*same, sample(2, (1.0, 2.0), (0, 9), "b"))))
    assert str(hidden) == "rank 2 differs, but not in the elements that are shown"
    other = compare_samples(TensorTable("x", (*same, sample(2, (1.0,), (0,), "c", shape=(1,)))))
    assert str(other) == "rank 2 has shape (1,), not (4, 4)"
    assert compare_samples(TensorTable("x", tuple(same))).agree
    assert compare_samples(TensorTable("x", ())) == Comparison(())


def test_a_skipped_all_reduce_shows_in_the_numbers() -> None:
    with fake_world(4) as world, world.inject("skipped-collective", rank=1, at=2):
        world.run_cell("a = torch.ones(4)\ndist.all_reduce(a)\nb = torch.ones(4) * rank\ndist.all_reduce(b)\ndist.barrier()")
        world.recover()
        found = compare_samples(world.tensors("b"))
        assert found.differences == compare(world.pull("b")).differences
        assert 1 in found.culprits
