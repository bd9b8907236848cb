"""The published formulas, written out once more and held against the price: p ranks, n bytes, alpha, beta, gamma."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, log2

import numpy as np
import pytest

from labkit.errors import UnknownName, UsageError
from labkit.schedule import ALGORITHMS, Link, best_chunks, cheapest, count, crossover, predict, price
from labkit.schedule.algorithms._trees import first_tree, trees

A, B, G = 7e-6, 3e-10, 5e-11
LINK = Link(A, B, G)
N = 840 * 1024  # divides by every world here


def two_to(p: int) -> int:
    return 2 ** floor(log2(p))


def rabenseifner(p: int) -> float:
    whole = 2 * log2(p) * A + 2 * N * (p - 1) / p * B + N * (p - 1) / p * G
    if p == two_to(p):
        return whole
    q = two_to(p)
    return (2 * floor(log2(p)) + 2) * A + (2 * (q - 1) / q + 2) * N * B + (1 + (q - 1) / q) * N * G


def doubling(p: int) -> float:
    steps = floor(log2(p))
    extra = 0 if p == two_to(p) else 1
    return (steps + 2 * extra) * (A + N * B) + (steps + extra) * N * G


TABLE = {
    "naive": lambda p: 2 * (p - 1) * (A + N * B) + (p - 1) * N * G,
    "everyone": lambda p: (p - 1) * (A + N * B + N * G),
    "binomial-tree": lambda p: 2 * ceil(log2(p)) * (A + N * B) + ceil(log2(p)) * N * G,
    "recursive-doubling": doubling,
    "halving-doubling": rabenseifner,
    "ring": lambda p: 2 * (p - 1) * A + 2 * N * (p - 1) / p * B + N * (p - 1) / p * G,
    "unchunked-ring": lambda p: (p - 1) * (A + N * B + N * G),
    "ring-reduce-scatter": lambda p: (p - 1) * A + N * (p - 1) / p * (B + G),
    "ring-all-gather": lambda p: (p - 1) * A + N * (p - 1) / p * B,
    "pairwise-all-to-all": lambda p: (p - 1) * (A + N / p * B),
    "chain-broadcast": lambda p: (p - 2 + 4) * (A + N / 4 * B),
    "binomial-broadcast": lambda p: ceil(log2(p)) * (A + N * B),
    "binomial-reduce": lambda p: ceil(log2(p)) * (A + N * B + N * G),
}


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 6, 7, 8, 12, 16])
@pytest.mark.parametrize("name", TABLE)
def test_the_price_is_the_published_one(name: str, world_size: int) -> None:
    assert predict(name, world_size, N, LINK).seconds == pytest.approx(TABLE[name](world_size), rel=1e-12)


@pytest.mark.parametrize("world_size", [1, 2, 3, 6, 8, 13, 64])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_closed_form_and_counted_schedule_cost_the_same(name: str, world_size: int) -> None:
    schedule = ALGORITHMS[name].schedule(world_size)
    num_elements = 6 * schedule.num_chunks
    counted = price(schedule, num_elements, LINK)
    closed = predict(name, world_size, 4 * num_elements, LINK)
    assert counted.seconds == pytest.approx(closed.seconds, rel=1e-12)
    assert counted.busbw_gb_per_s == pytest.approx(closed.busbw_gb_per_s, rel=1e-12)


def test_the_double_tree_sends_at_most_twice_the_tensor() -> None:
    for world_size in [*range(2, 40), 64, 100]:
        shares = [ALGORITHMS["double-tree"].sent(rank, world_size).fraction for rank in range(world_size)]
        assert max(shares) <= 2
        assert sum(shares) == 2 * (world_size - 1)  # each of two trees moves half of it up and down each edge
    assert [float(ALGORITHMS["double-tree"].sent(rank, 8).fraction) for rank in range(8)] == [1, 2, 2, 2, 2, 2, 2, 1]


def test_the_double_tree_is_as_deep_as_the_logarithm() -> None:
    for world_size in range(1, 300):
        assert first_tree(world_size).deepest == ceil(log2(world_size))


@pytest.mark.parametrize("world_size", range(2, 66))
def test_leaves_of_one_tree_are_inner_in_the_other(world_size: int) -> None:
    first, second = trees(world_size)
    both = (first.num_children == 0) & (second.num_children == 0)
    assert not both.any()
    for tree in (first, second):
        assert np.count_nonzero(tree.parent < 0) == 1
        assert tree.num_children.max() <= 2
        assert tree.num_children.sum() == world_size - 1


def test_the_trees_are_those_that_nccl_draws() -> None:
    """The two pictures in its src/graph/trees.cc, of 12 and 13 ranks."""
    first, second = trees(12)
    assert first.parent.tolist() == [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 8, 10]
    assert second.parent.tolist() == [1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, -1]
    assert trees(13)[1].parent.tolist() == [9, -1, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11]


def test_two_levels_send_only_their_part_across() -> None:
    algorithm = ALGORITHMS["hierarchical"]
    share = algorithm.sent(0, 16, ranks_per_host=8)
    assert share.fraction == ALGORITHMS["ring"].sent(0, 16).fraction == Fraction(15, 8)
    assert algorithm.num_steps(16, ranks_per_host=8) == 2 * 7 + 2 * 1


def test_halving_doubling_is_never_dearer_than_the_ring_on_powers_of_two() -> None:
    for world_size in (2, 4, 8, 64, 1024):
        for num_bytes in (1, 1e3, 1e6, 1e9):
            assert predict("halving-doubling", world_size, num_bytes, LINK).seconds <= predict(
                "ring", world_size, num_bytes, LINK
            ).seconds * (1 + 1e-12)


@pytest.mark.parametrize("pair", [("recursive-doubling", "ring"), ("binomial-tree", "ring"), ("naive", "ring")])
def test_at_the_crossover_both_cost_the_same_and_around_it_they_change_places(pair: tuple[str, str]) -> None:
    size = crossover(*pair, 12, LINK)
    if pair[0] == "naive":
        assert size is None
        return
    assert size is not None

    def lead(num_bytes: float) -> float:
        return predict(pair[0], 12, num_bytes, LINK).seconds - predict(pair[1], 12, num_bytes, LINK).seconds

    assert lead(size) == pytest.approx(0, abs=1e-12)
    assert lead(size / 2) < 0 < lead(size * 2)


def test_a_crossover_takes_the_parameters_of_either() -> None:
    sizes = [crossover("ring", "double-tree", 32, LINK, chunks=chunks) for chunks in (4, 64)]
    assert sizes[0] is not None
    assert sizes[0] != sizes[1]


def test_small_tensors_go_by_few_steps_and_large_ones_by_few_bytes() -> None:
    assert cheapest("all_reduce", 12, 8, LINK)[0].name == "recursive-doubling"
    assert {each.name for each in cheapest("all_reduce", 12, 1e9, LINK)[:2]} == {"ring", "hierarchical"}
    assert best_chunks("chain-broadcast", 16, 1e9, LINK) > best_chunks("chain-broadcast", 16, 1e4, LINK) >= 1


def test_a_price_says_what_it_is_made_of() -> None:
    text = str(predict("ring", 4, 2**20, Link.of(5, 10, 20)))
    assert text == "ring, 1 MiB on 4 ranks: 227 µs = 30 µs latency + 157 µs transfer + 39 µs reducing"
    alone = predict("ring", 1, 100, LINK)
    assert (alone.seconds, alone.algbw_gb_per_s, alone.busbw_gb_per_s) == (0, 0, 0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ALGORITHMS["rign"], UnknownName, "no algorithm 'rign'; did you mean 'ring'?"),
        (lambda: ALGORITHMS["naive"].schedule(4, rot=1), UnknownName, "no naive parameter 'rot'; did you mean 'root'?"),
        (lambda: ALGORITHMS["naive"].schedule(4, root=4), UsageError, "root can't be 4; give a whole number from 0 to 3"),
        (lambda: ALGORITHMS["double-tree"].schedule(4, chunks=0), UsageError, "chunks must be a whole number from 1, not 0"),
        (lambda: ALGORITHMS["double-tree"].schedule(4, chunks=2.5), UsageError, "not 2.5"),
        (
            lambda: ALGORITHMS["hierarchical"].schedule(6, ranks_per_host=4),
            UsageError,
            "can't be divided into hosts of 4",
        ),
        (lambda: crossover("ring", "naive", 4, LINK, chunk=3), UnknownName, "no parameter of ring or naive 'chunk'"),
        (lambda: ALGORITHMS["ring"].schedule(0), UsageError, "world_size can't be 0"),
        (lambda: ALGORITHMS["ring"].sent(4, 4), UsageError, "rank can't be 4; give a whole number from 0 to 3"),
    ],
)
def test_what_can_not_be_is_said_in_one_line(call: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_counts_need_no_data() -> None:
    totals = count(ALGORITHMS["naive"].schedule(4), 100, itemsize=2)
    assert totals.by_rank.sent_bytes.tolist() == [600, 200, 200, 200]
    assert totals.by_rank.received_bytes.tolist() == [600, 200, 200, 200]
    assert totals.by_rank.reduced_bytes.tolist() == [600, 0, 0, 0]


@pytest.mark.parametrize("world_size", [2, 3, 5, 6, 8, 13, 16, 17])
def test_what_is_said_of_folded_worlds_is_so(world_size: int) -> None:
    def fractions(name: str) -> set[Fraction]:
        return {ALGORITHMS[name].sent(rank, world_size).fraction for rank in range(world_size)}

    ring, folded = Fraction(world_size - 1, world_size), world_size != two_to(world_size)
    assert fractions("recursive-halving") == ({ring, Fraction(1)} if folded else {ring})
    assert max(fractions("doubling-all-gather")) <= (Fraction(9, 4) if folded else ring)
    rounded = 2 * Fraction(two_to(world_size) - 1, two_to(world_size))
    assert max(fractions("halving-doubling")) == rounded + folded
