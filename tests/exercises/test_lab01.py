"""Each check of lab 01 takes the right answer and refuses the wrong ones that people give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.exercises.primes import PRIMES
from labkit.wire import RankCard, TensorTable, WorldStatus

Table = Callable[..., TensorTable]
SIZES = (2, 3, 4)


def world(*pids: int, note: str = "", generation: int = 1) -> WorldStatus:
    cards = tuple(RankCard(rank, pid, "cpu", "gloo", "idle") for rank, pid in enumerate(pids))
    return WorldStatus(len(pids), "gloo", "raw", generation, "fork", cards, note=note)


def refused(name: str, *answer: Any) -> str:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    return caught.value.what


def test_processes() -> None:
    assert CHECKS["01/processes"](world(5, 6)) == "2 ranks are 2 processes on 1 device."
    assert refused("01/processes", world(5, 5)) == "2 ranks share 1 pids"


@pytest.mark.parametrize("size", SIZES)
def test_sum(table: Table, size: int) -> None:
    total = sum(PRIMES[:size])
    assert "every rank is counted once" in CHECKS["01/sum"](table([[total] * 4] * size))
    assert "rank 0 is missing" in refused("01/sum", table([[total - 2] * 4] * size))
    assert "rank 1 is counted twice" in refused("01/sum", table([[total] * 4] * (size - 1) + [[total, total + 5]]))
    assert "missing on rank 0" in refused("01/sum", table([[total] * 4] * size, missing=(0,)))
    assert "not int" in refused("01/sum", 77)


def test_ops(table: Table) -> None:
    assert CHECKS["01/ops"](table([[19.25, 53, 2, 9010]] * 4)).answer.value == 19.25
    assert "19.25, 53, 2, 9010" in CHECKS["01/ops"](table([[19.25, 53, 2, 9010]] * 4))
    refused("01/ops", table([[77, 53, 2, 9010]] * 4))
    refused("01/ops", table([[19.25, 2, 53, 9010]] * 4))
    refused("01/ops", table([[19.25, 53, 2]] * 4))


def greedy(total: int, primes: list[int]) -> list[int]:
    found = []
    for prime in reversed(primes):
        found.insert(0, min(2, total // prime))
        total -= found[0] * prime
    return found


def only_missing(total: int, primes: list[int]) -> list[int]:
    missing = sum(primes) - total
    return [0 if prime == missing else 1 for prime in primes]


def smallest_first(total: int, primes: list[int]) -> list[int]:
    found = []
    for prime in primes:
        found.append(min(2, total // prime))
        total -= found[-1] * prime
    return found


def upside_down(total: int, primes: list[int]) -> list[int]:
    return greedy(total, primes)[::-1]


def at_most_once(total: int, primes: list[int]) -> list[int]:
    return [min(1, times) for times in greedy(total, primes)]


def test_blame() -> None:
    assert CHECKS["01/blame"](greedy) == "right for all 117 sums."
    for wrong in (
        only_missing,
        smallest_first,
        upside_down,
        at_most_once,
        lambda total, primes: None,
        lambda total, primes: [1, "x"],
    ):
        assert refused("01/blame", wrong).startswith("for ")


def test_two_steps(table: Table) -> None:
    x = table([[77] * 4] * 4)
    assert "all 4 ranks" in CHECKS["01/two-steps"](table([[77] * 4] * 4), x)
    assert refused("01/two-steps", table([[77] * 4, [75] * 4, [70] * 4, [53] * 4]), x) == "they differ on ranks 1-3"


@pytest.mark.parametrize(
    ("right", "says"),
    [
        ([[2], [5]], "rank 0 and rank 1 have separate sums."),
        ([[7], [7], [17]], "ranks 0 and 1 and rank 2 have separate sums."),
        ([[7], [7], [70], [70]], "ranks 0 and 1 and ranks 2 and 3 have separate sums."),
    ],
)
def test_groups(table: Table, right: list[list[float]], says: str) -> None:
    assert CHECKS["01/groups"](table(right)) == says
    assert CHECKS["01/groups"](table(right)).answer.value == right[0][0]
    refused("01/groups", table([[sum(PRIMES[: len(right)])]] * len(right)))
    refused("01/groups", table([[prime + 1] for prime in PRIMES[: len(right)]]))


def test_dtypes() -> None:
    assert CHECKS["01/dtypes"]({0: 2, 1: 2}) == "AVG works for 2 of 5 types."
    refused("01/dtypes", {0: 2, 1: 5})
    refused("01/dtypes", {0: 0, 1: 0})


def total(size: int) -> list[float]:
    return [sum(2 * size * rank + place + 1 for rank in range(size)) for place in range(2 * size)]


FAMOUS = [10, 12, 30, 32, 50, 52, 38, 40]


def test_suspicious(table: Table) -> None:
    assert "the sum begins with 52" in CHECKS["01/suspicious"](table([FAMOUS] * 4))
    assert CHECKS["01/suspicious"](table([FAMOUS] * 4)).answer.value == total(4)[0] == 52
    assert "with two ranks this mistake has no effect" in CHECKS["01/suspicious"](table([total(2)] * 2))
    assert "already the sum" in refused("01/suspicious", table([total(4)] * 4))
    assert refused("01/suspicious", table([FAMOUS] * 3 + [total(4)])) == "the ranks differ"


@pytest.mark.parametrize("size", SIZES)
def test_ring(table: Table, size: int) -> None:
    assert CHECKS["01/ring"](table([total(size)] * size)) == f"the sum, on all {size} ranks."
    assert "now the ranks differ" in refused("01/ring", table([total(size)] * (size - 1) + [[0] * 2 * size]))
    assert "identical but still wrong" in refused("01/ring", table([[1] * 2 * size] * size))


Rows = list[list[float]]


def test_correct() -> None:
    def right(inputs: Rows, outputs: Rows) -> bool:
        return all(row == [sum(column) for column in zip(*inputs, strict=True)] for row in outputs)

    def identical(inputs: Rows, outputs: Rows) -> bool:
        return all(row == outputs[0] for row in outputs)

    def first_rank_only(inputs: Rows, outputs: Rows) -> bool:
        return outputs[0] == [sum(column) for column in zip(*inputs, strict=True)]

    def last_rank_only(inputs: Rows, outputs: Rows) -> bool:
        return outputs[-1] == [sum(column) for column in zip(*inputs, strict=True)]

    def checksum(inputs: Rows, outputs: Rows) -> bool:
        return all(sum(row) == sum(map(sum, inputs)) for row in outputs)

    def sorted_alike(inputs: Rows, outputs: Rows) -> bool:
        return all(sorted(row) == sorted(sum(column) for column in zip(*inputs, strict=True)) for row in outputs)

    assert CHECKS["01/correct"](right) == "right in all 7 cases."
    for wrong in (identical, first_rank_only, last_rank_only, checksum, sorted_alike, lambda i, o: True, lambda i, o: None):
        assert refused("01/correct", wrong).startswith("for ")


def test_drift(table: Table) -> None:
    alone, together = table([[1], [2], [3]]), table([[5]] * 3)
    assert CHECKS["01/drift"](alone, together) == "without sync: 3 different replicas; with sync: all identical, bit by bit."
    assert "some replicas are equal" in refused("01/drift", together, together)
    assert "the replicas differ" in refused("01/drift", alone, alone)


def test_script(table: Table) -> None:
    x = table([[7.0, 7.0]] * 2)
    assert CHECKS["01/script"]({"0": [7.0, 7.0], "1": [7.0, 7.0]}, x) == "the same numbers on all 2 ranks."
    assert refused("01/script", {"0": [7.0, 7.0]}, x) == "the script printed numbers of rank 0"
    assert refused("01/script", {}, x) == "the script printed numbers of no rank"
    assert refused("01/script", {"0": [7.0, 7.0], "1": [7.0, 5.0]}, x) == "the numbers differ on rank 1"


def test_again(table: Table) -> None:
    x = table([[7] * 4] * 2)
    assert CHECKS["01/again"](x, world(1, 2, generation=2)).endswith("This is generation 2.")
    assert "broken" in refused("01/again", x, world(1, 2, note="the groups are broken since cell 4"))
    assert "rank 0 is missing" in refused("01/again", table([[5] * 4] * 2), world(1, 2))


def test_every_check_of_the_lab_is_tested_here() -> None:
    text = __import__("pathlib").Path(__file__).read_text()
    assert [name for name in CHECKS if name.startswith("01/") and f'"{name}"' not in text] == []
