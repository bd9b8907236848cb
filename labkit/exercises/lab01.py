"""Checks of the lab "Every rank the same"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import join_ranks
from ..faults import FAULTS
from ..wire import TensorTable, WorldStatus
from ._base import TWO_RANKS, NotYet, as_number, check, function, heard, no_text, plain, rows, totals
from .guess import Answer, Found
from .primes import PRIMES, counts, explain

INPUTS = ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12))
TOTAL = (15, 18, 21, 24)


@check("01/processes")
def processes(status: WorldStatus) -> str:
    """Every rank is a process of its own."""
    pids = {card.pid for card in status.cards}
    if len(pids) != status.world_size:
        raise NotYet(f"{status.world_size} ranks share {len(pids)} pids", hint="start the world again")
    devices = {card.device for card in status.cards}
    return f"{status.world_size} ranks are {len(pids)} processes on {len(devices)} device{'s' if len(devices) > 1 else ''}."


@check("01/sum")
def the_sum(table: TensorTable) -> Found:
    """Every element on every rank is the sum of all primes; a wrong one says who is missing."""
    found = rows(table)
    expected = sum(PRIMES[: len(found)])
    for rank, values in found.items():
        wrong = next((value for value in values if value != expected), None)
        if wrong is not None:
            raise NotYet(
                f"rank {rank} holds {wrong:g}: {explain(wrong, len(found))}", hint="run the cell above again, on all ranks"
            )
    return Found(f"{expected} on every rank: {explain(expected, len(found))}.", Answer(expected))


@check("01/ops")
def four_operations(table: TensorTable) -> Found:
    """AVG, MAX, MIN and PRODUCT of the primes, in this order."""
    found = rows(table)
    primes = PRIMES[: len(found)]
    expected = (sum(primes) / len(primes), float(max(primes)), float(min(primes)), float(math.prod(primes)))
    for rank, values in found.items():
        if len(values) != 4 or not all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(values, expected, strict=True)):
            raise NotYet(
                f"rank {rank} holds {plain(values)}", hint="give one element each for AVG, MAX, MIN and PRODUCT, in this order"
            )
    says = f"AVG, MAX, MIN, PRODUCT are {', '.join(map(str, plain(expected)))} on every rank."
    return Found(says, Answer(expected[0]))


@check("01/blame")
def blame(answer: Callable[[int, Sequence[int]], Sequence[int]]) -> str:
    """A function that reads a wrong sum: how often each rank is in it."""
    function(answer, 2)
    tried = 0
    for world_size in (2, 3, 4):
        primes = PRIMES[:world_size]
        for number in range(3**world_size):
            truth = tuple(number // 3**rank % 3 for rank in range(world_size))
            total = sum(times * prime for times, prime in zip(truth, primes, strict=True))
            where = f"for {total} with the primes {list(primes)} you say"
            got = _list(answer(total, list(primes)), where)
            if got != list(truth):
                raise NotYet(f"{where} {heard(got)}", hint=f"in this sum, {explain(total, world_size)}")
            tried += 1
    return f"right for all {tried} sums."


@check("01/two-steps")
def two_steps(reduced: TensorTable, all_reduced: TensorTable) -> Found:
    """Reduce and then broadcast is all-reduce, bit by bit."""
    rows(reduced), rows(all_reduced)
    ours = {sample.rank: sample.digest for sample in reduced.samples}
    theirs = {sample.rank: sample.digest for sample in all_reduced.samples}
    differ = [rank for rank in theirs if ours.get(rank) != theirs[rank]]
    if differ:
        raise NotYet(f"they differ on {join_ranks(differ)}", hint="run both cells above, on all ranks")
    return Found(f"bitwise the same on all {len(theirs)} ranks.", Answer(1, "rank"))  # a reduce alone leaves it on its root


@check("01/groups")
def groups(table: TensorTable) -> Found:
    """The first half of the ranks and the rest sum up among themselves."""
    found = rows(table)
    size = len(found)
    half = (size + 1) // 2
    for rank, values in found.items():
        members = range(half) if rank < half else range(half, size)
        expected = tuple(int(other in members) for other in range(size))
        if any(counts(value, size) != expected for value in values):
            raise NotYet(f"rank {rank} holds {plain(values)[:4]}", hint=f"its group is {join_ranks(list(members))}")
    says = f"{join_ranks(list(range(half)))} and {join_ranks(list(range(half, size)))} have separate sums."
    return Found(says, Answer(sum(PRIMES[:half])))


@check("01/dtypes")
def dtypes(counts_by_rank: Mapping[int, int]) -> Found:
    """For how many of the five types AVG works: a number that all ranks agree on."""
    found = {int(number) for number in counts_by_rank.values()}
    if len(found) != 1 or not found & {2, 3, 4, 5}:
        raise NotYet(f"the ranks count {sorted(found)}", hint="run the cell above again, on all ranks")
    (number,) = found
    return Found(f"AVG works for {number} of 5 types.", Answer(number, "types"))


@check("01/suspicious")
def suspicious(table: TensorTable) -> Found:
    """The copied ring: identical everywhere, and wrong from three ranks on."""
    found = rows(table)
    size = len(found)
    if not table.identical:
        raise NotYet("the ranks differ", hint="call the copied ring unchanged: ring(x, first=rank - 1)")
    right = _is_total(found, size)
    should_be = Answer(totals(size)[0])
    if size == 2 and right:
        return Found(f"identical and right: {TWO_RANKS}", should_be)
    if right:
        raise NotYet("this is already the sum", hint="call the copied ring unchanged: ring(x, first=rank - 1)")
    return Found(f"identical on all {size} ranks, but not the sum: the sum begins with {should_be.value}.", should_be)


@check("01/correct")
def correct(answer: Callable[[Sequence[Sequence[float]], Sequence[Sequence[float]]], bool]) -> str:
    """A function that tells a sum from something that only looks like one."""
    right = [list(TOTAL)] * 3
    cases: dict[str, tuple[Sequence[Sequence[float]], bool]] = {
        "the sum, on every rank": (right, True),
        "the same wrong numbers on every rank": ([[10, 12, 14, 16]] * 3, False),
        "one element wrong on the last rank": ([*right[:2], [15, 18, 21, 25]], False),
        "the mean instead of the sum": ([[5, 6, 7, 8]] * 3, False),
        "the right numbers in another order": ([[24, 21, 18, 15]] * 3, False),
        "every rank its own input": ([list(row) for row in INPUTS], False),
        "rank 0 wrong, the others right": ([[15, 18, 21, 0], *right[1:]], False),
    }
    function(answer, 2)
    for name, (outputs, truth) in cases.items():
        got: Any = answer([list(row) for row in INPUTS], [list(row) for row in outputs])
        if bool(got) != truth:
            raise NotYet(
                f"for {name} you say {heard(got) if got is None else bool(got)}",
                hint="compare every rank's output with the sum of all inputs",
            )
    return f"right in all {len(cases)} cases."


@check("01/ring")
def ring(table: TensorTable) -> str:
    """The mended ring gives the sum on every rank."""
    found = rows(table)
    if not _is_total(found, len(found)):
        more = "the ranks are identical but still wrong" if table.identical else "now the ranks differ"
        raise NotYet(
            f"{more}: rank 0 holds {plain(found[0])}", hint="which chunk is complete on rank r when the first half ends?"
        )
    return f"the sum, on all {len(found)} ranks."


def _is_total(found: Mapping[int, Sequence[float]], size: int) -> bool:
    """Whether rank r started with 2n r + 1, 2n r + 2, ..., and all of that was added up."""
    return all(list(values) == totals(size) for values in found.values())


@check("01/drift")
def drift(alone: TensorTable, together: TensorTable) -> Found:
    """Replicas that do not talk drift apart; replicas that average stay bitwise equal."""
    rows(alone), rows(together)
    num_digests = len({sample.digest for sample in alone.samples})
    if num_digests != len(alone.samples):
        raise NotYet("without sync some replicas are equal", hint="give every rank its own batches")
    if not together.identical:
        raise NotYet("with sync the replicas differ", hint="average the gradient on all ranks before the step")
    says = f"without sync: {num_digests} different replicas; with sync: all identical, bit by bit."
    return Found(says, Answer(num_digests, "models"))


@check("01/script")
def script(values: Mapping[Any, Sequence[float]], table: TensorTable) -> Found:
    """The script's numbers are the notebook's."""
    found = rows(table)
    theirs = {int(rank): tuple(row) for rank, row in values.items()}
    if set(theirs) != set(found):
        raise NotYet(f"the script printed numbers of {join_ranks(list(theirs))}", hint="look at its output: run.output")
    differ = [rank for rank, row in found.items() if theirs[rank] != row]
    if differ:
        raise NotYet(f"the numbers differ on {join_ranks(differ)}", hint="run the notebook's cell again, then the script")
    return Found(f"the same numbers on all {len(found)} ranks.", Answer(len(found), "ranks"))


@check("01/again", prediction="01/ending")
def again(table: TensorTable, status: WorldStatus) -> Found:
    """After the recovery: the sum is right again, in the same world."""
    if status.note:
        raise NotYet(status.note, hint="run the cell with world.recover()")
    return Found(f"{the_sum(table)} This is generation {status.generation}.", _ending(status))


def _ending(status: WorldStatus) -> Answer:
    """How the cell with two calls in the wrong order ended: only ranks that hung have come into a new generation."""
    if status.mode == "safe" or status.generation > 1:
        return Answer(FAULTS["swapped-order"].expect[status.mode].ending)
    return Answer("well", source="it ended")


def _list(got: object, where: str) -> object:
    try:
        items = [as_number(times) for times in got]  # type: ignore[attr-defined]
        for item in items:
            no_text(where, item)
        return [int(times) for times in items]
    except (TypeError, ValueError):
        return got
