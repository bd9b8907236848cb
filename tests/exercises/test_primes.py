"""Every sum of the primes has one reading."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UsageError
from labkit.exercises.primes import PRIMES, counts, explain, roll_call
from labkit.wire import TensorTable


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_they_are_primes_and_each_exceeds_twice_all_before() -> None:
    assert all(map(is_prime, PRIMES))
    assert all(prime > 2 * sum(PRIMES[:place]) for place, prime in enumerate(PRIMES))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=len(PRIMES)))
def test_counts_read_back(times: list[int]) -> None:
    total = sum(time * prime for time, prime in zip(times, PRIMES, strict=False))
    assert counts(total, len(times)) == tuple(times)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_what_is_no_sum_is_none(size: int) -> None:
    sums = {sum(t * p for t, p in zip(times, PRIMES, strict=False)) for times in itertools.product(range(3), repeat=size)}
    assert [total for total in range(-3, 200) if (counts(total, size) is not None) != (total in sums)] == []


@pytest.mark.parametrize("total", [0.5, 76.999, float("1e9"), -1])
def test_odd_totals_are_none(total: float) -> None:
    assert counts(total, 4) is None


def test_several_causes_are_all_named() -> None:
    assert explain(2 * 2 + 53, 4) == "ranks 1 and 2 are missing and rank 0 is counted twice"


@pytest.mark.parametrize("size", [0, 9])
def test_there_are_only_so_many_primes(size: int) -> None:
    with pytest.raises(UsageError, match="1 to 8 ranks"):
        counts(2, size)


def test_a_roll_call_names_members_by_element(table: Callable[..., TensorTable]) -> None:
    text = repr(roll_call(table([[7, 7], [7, 24], [19, 9], [0.5, 7]])))
    assert text.splitlines() == [
        "rank 0: the sum of ranks 0 and 1",
        "rank 1: element 0: ranks 0 and 1; element 1: ranks 0-2",
        "rank 2: element 0: ranks 0 and 2; element 1: ranks 0 and 1 (rank 0 twice)",
        "rank 3: element 0: no ranks' primes (0.5); element 1: ranks 0 and 1",
    ]
