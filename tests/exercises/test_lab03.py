"""Each check of lab 03 takes the right answer and refuses the wrong ones that people give."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.exercises.guess import Answer
from labkit.exercises.lab03_measured import KINDS, LINK_GB_PER_S, RANKS, TABLES
from labkit.schedule import Link, predict
from labkit.schedule.nccl_log import NcclCost
from labkit.schedule.nccl_model import NcclMachine, choices
from labkit.schedule.records import Comparison, Timing
from labkit.schedule.sweeps import Crossing, Point, Sweep

SIZES = tuple(1024 * 4**power for power in range(7))
LINK = Link.of(500, 2)


def refused(name: str, *answer: Any) -> str:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    return caught.value.what


def swept(sizes: tuple[int, ...] = SIZES, ranks: int = 4, **changes: Any) -> Sweep:
    points = []
    for size in sizes:
        time_s = predict("ring", ranks, size, LINK).seconds
        points.append(Point("all_reduce", "all_reduce", ranks, size, "float32", 4, "SUM", (0.9 * time_s, time_s, 2 * time_s)))
    return dataclasses.replace(Sweep("gloo", ranks, tuple(points), warmups=2), **changes)


# ---- the model
def test_price() -> None:
    assert "right for 45 rings" in CHECKS["03/price"](lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n / p * beta))
    for wrong in (
        lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n * beta),
        lambda p, n, alpha, beta: (p - 1) * (alpha + n / p * beta),
        lambda p, n, alpha, beta: alpha + 2 * (p - 1) / p * n * beta,
        lambda p, n, alpha, beta: 2 * (p - 1) * alpha + 2 * n * beta,
        lambda p, n, alpha, beta: 2 * p * (alpha + n / p * beta),
        lambda p, n, alpha, beta: None,
    ):
        assert "you say" in refused("03/price", wrong)


@pytest.mark.parametrize(
    ("wrong", "what", "hint"),
    [
        (lambda p, n, alpha, beta: (p - 1) * (alpha + n / p * beta), "messages' part", "2(p - 1) messages"),
        (lambda p, n, alpha, beta: alpha + 2 * (p - 1) / p * n * beta, "messages' part", "cost alpha each"),
        (lambda p, n, alpha, beta: 2 * p * (alpha + n / p * beta), "messages' part", "2(p - 1) messages"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n * beta), "bytes' part", "n/p bytes each"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * alpha + n * beta, "you say 84 µs, not 126 µs", "n/p bytes each"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * alpha + 2 * n * beta, "bytes' part", "n/p bytes each"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n // p * beta), "you say 0.72 µs, not 0.75 µs", "instead of //"),
        (lambda p, n, alpha, beta: round(2 * (p - 1) * (alpha + n / p * beta), 6), "bytes' part", "without rounding"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * max(alpha, n / p * beta), "for 1000 bytes on 2 ranks", "add them"),
        (lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n / p / beta), "with beta = 0 you divide by 0", "multiply by them"),
        (lambda p, n, alpha, beta: "30", "'30': this is text, not a number", "quotes"),
    ],
)  # fmt: skip
def test_a_wrong_price_says_which_part_is_wrong(wrong: Any, what: str, hint: str) -> None:
    with pytest.raises(NotYet) as caught:
        CHECKS["03/price"](wrong)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_a_price_that_is_right_may_be_written_with_a_bandwidth() -> None:
    assert CHECKS["03/price"](lambda p, n, alpha, beta: 2 * (p - 1) * (alpha + n / p / (1 / beta)))


def test_busbw() -> None:
    assert "as benchmark tools compute it" in CHECKS["03/busbw"](lambda n, s, p: n / s / 1e9 * 2 * (p - 1) / p)
    assert refused("03/busbw", lambda n, s, p: n / s / 1e9) == "that is algbw"
    for wrong in (
        lambda n, s, p: n / s / 1e9 * (p - 1) / p,
        lambda n, s, p: n / s / 2**30 * 2 * (p - 1) / p,
        lambda n, s, p: n / s * 2 * (p - 1) / p,
        lambda n, s, p: n / s / 1e9 * 2 * (p - 1),
        lambda n, s, p: 8 * n / s / 1e9 * 2 * (p - 1) / p,
        lambda n, s, p: n / s / 1e9 * p / 2 / (p - 1),
        lambda n, s, p: None,
    ):
        assert "you say" in refused("03/busbw", wrong)
    with pytest.raises(NotYet, match=r"you say 0\.0132, not 0\.01333; .* do not use //"):
        CHECKS["03/busbw"](lambda n, s, p: n // p / s / 1e9 * 2 * (p - 1))


# ---- measured
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sweep(ranks: int) -> None:
    assert CHECKS["03/sweep"](swept(ranks=ranks)).startswith("1 MiB took ")
    milliseconds, busbw = CHECKS["03/sweep"](swept(ranks=ranks)).answer.value
    assert milliseconds == pytest.approx(1e3 * predict("ring", ranks, 1 << 20, LINK).seconds)
    assert busbw == pytest.approx(2 * (ranks - 1) / ranks * (1 << 20) / milliseconds / 1e6)
    assert "too few" in refused("03/sweep", swept(SIZES[:4], ranks))
    assert "too few" in refused("03/sweep", swept((1 << 20, *range(1 << 21, 1 << 23, 1 << 21)), ranks))
    assert "1 MiB is not among" in refused("03/sweep", swept(tuple(3 * size for size in SIZES), ranks))
    assert "no warm-up" in refused("03/sweep", swept(ranks=ranks, warmups=0))
    assert "interrupted" in refused("03/sweep", swept(ranks=ranks, interrupted=True))
    assert "rank 1 is gone" in refused("03/sweep", swept(ranks=ranks, error="rank 1 is gone"))
    assert "not str" in refused("03/sweep", str(swept(ranks=ranks)))


Pair = tuple[float, float]


def right_alpha_beta(p: int, small: Pair, large: Pair) -> Pair:
    beta = (large[1] - small[1]) / (large[0] - small[0]) * p / (2 * (p - 1))
    return small[1] / (2 * (p - 1)) - small[0] / p * beta, beta


def slope_only(p: int, small: Pair, large: Pair) -> Pair:
    beta = (large[1] - small[1]) / (large[0] - small[0])
    return right_alpha_beta(p, small, large)[0], beta


def small_is_all_latency(p: int, small: Pair, large: Pair) -> Pair:
    return small[1] / (2 * (p - 1)), right_alpha_beta(p, small, large)[1]


def one_message(p: int, small: Pair, large: Pair) -> Pair:
    alpha, beta = right_alpha_beta(p, small, large)
    return alpha * 2 * (p - 1), beta


def bandwidth(p: int, small: Pair, large: Pair) -> Pair:
    alpha, beta = right_alpha_beta(p, small, large)
    return alpha, 1 / beta


def large_is_all_transfer(p: int, small: Pair, large: Pair) -> Pair:
    return right_alpha_beta(p, small, large)[0], large[1] / large[0] * p / (2 * (p - 1))


def test_alpha_beta() -> None:
    assert "two points are enough" in CHECKS["03/alpha-beta"](right_alpha_beta)
    for wrong in (slope_only, small_is_all_latency, one_message, bandwidth, large_is_all_transfer):
        assert "comes out as" in refused("03/alpha-beta", wrong)
    for nothing in (lambda p, small, large: None, lambda p, small, large: 1.0, lambda p, small, large: (1.0,)):
        assert "you return" in refused("03/alpha-beta", nothing)
    assert "beta comes out as None" in refused("03/alpha-beta", lambda p, small, large: (None, None))
    assert "alpha comes out as None" in refused("03/alpha-beta", lambda *given: (None, right_alpha_beta(*given)[1]))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_held_out(ranks: int) -> None:
    sweep = swept(ranks=ranks)
    fitted = sweep.fit("all_reduce")
    says = CHECKS["03/held-out"](fitted, sweep)
    assert "500 µs per message, 2 GB/s per link" in says
    assert "at 64 KiB, which the fit had not seen" in says
    cheat = dataclasses.replace(fitted, residuals=fitted.fit.residuals[:1])
    assert "used the size it should predict" in refused("03/held-out", cheat, sweep)
    assert "does not belong to this sweep" in refused("03/held-out", swept(SIZES[:5], ranks).fit("all_reduce"), sweep)
    assert "not Fit" in refused("03/held-out", fitted.fit, sweep)
    assert "no warm-up" in refused("03/held-out", fitted, swept(ranks=ranks, warmups=0))


# ---- crossover
def right_crossover(p: int, alpha: float, beta: float) -> float:
    steps = math.log2(p)
    return (2 * (p - 1) - steps) * alpha / ((steps - 2 * (p - 1) / p) * beta)


def test_crossover() -> None:
    assert "on 4 to 64 ranks" in CHECKS["03/crossover"](right_crossover)
    for wrong in (
        lambda p, alpha, beta: alpha / beta,
        lambda p, alpha, beta: -right_crossover(p, alpha, beta),
        lambda p, alpha, beta: p * right_crossover(p, alpha, beta),
        lambda p, alpha, beta: (2 * (p - 1) - math.log2(p)) * alpha / (math.log2(p) * beta),
        lambda p, alpha, beta: ((p - 1) - math.log2(p)) * alpha / ((math.log2(p) - 2 * (p - 1) / p) * beta),
        lambda p, alpha, beta: right_crossover(4, alpha, beta),
        lambda p, alpha, beta: None,
    ):
        assert "you say" in refused("03/crossover", wrong)


def crossed(predicted: float | None, measured: float | None, ranks: int = 4, num: int = 6, one: str = "ring") -> Crossing:
    timings = tuple(Timing(name, (1.0,)) for name in ("recursive-doubling", "ring", "library"))
    compared = tuple(Comparison(ranks, size, "float32", timings) for size in SIZES[:num])
    return Crossing("recursive-doubling", one, ranks, LINK, predicted, measured, compared)


def test_crossing() -> None:
    assert CHECKS["03/crossing"](crossed(400000, 500000)) == "predicted 391 KiB, measured 488 KiB."
    assert CHECKS["03/crossing"](crossed(512000, 400000)).answer == Answer(390.625, "KiB", noise=2.0, source="measured")
    assert CHECKS["03/crossing"](crossed(512000, None)).answer.source == "the fit says"
    assert CHECKS["03/crossing"](crossed(None, None, ranks=2)).answer.value == "no size"
    assert CHECKS["03/crossing"](crossed(400000, None)) == "predicted 391 KiB, not found among the measured sizes."
    assert "in half the steps" in CHECKS["03/crossing"](crossed(None, None, ranks=2))
    assert CHECKS["03/crossing"](crossed(None, None, ranks=3)) == "by the fit they never cross."
    assert "not a crossing of the two" in refused("03/crossing", crossed(1e5, 1e5, one="naive"))
    assert "not a crossing of the two" in refused("03/crossing", 400000)
    assert "only 3 sizes" in refused("03/crossing", crossed(1e5, 1e5, num=3))


# ---- one large, a thousand small
def test_thousand() -> None:
    assert CHECKS["03/thousand"]({0: 2.0}, {0: 0.02}).answer == Answer(100.0, "times as long", noise=1.3)
    assert CHECKS["03/thousand"]({0: 1.9, 1: 2.0}, {0: 0.02, 1: 0.01}).endswith("100 times longer.")
    refused("03/thousand", {0: 0.01, 1: 0.01}, {0: 2.0, 1: 2.0})
    refused("03/thousand", {0: 1.0}, {0: 0.0})


def test_bucket() -> None:
    assert "one tenth latency" in CHECKS["03/bucket"](lambda p, alpha, beta: 9 * p * alpha / beta)
    for wrong in (
        lambda p, alpha, beta: 9 * alpha / beta,
        lambda p, alpha, beta: 10 * p * alpha / beta,
        lambda p, alpha, beta: p * alpha / beta,
        lambda p, alpha, beta: 9 * p * beta / alpha,
        lambda p, alpha, beta: 25 * 2**20,
    ):
        assert "on latency" in refused("03/bucket", wrong)
    for nothing in (lambda p, alpha, beta: None, lambda p, alpha, beta: 0, lambda p, alpha, beta: -1.0):
        assert "you say" in refused("03/bucket", nothing)


# ---- the liars
RIGHT = {name: (table.kind, table.number) for name, table in TABLES.items()}


def test_the_liars_lie_in_four_ways_and_each_in_one() -> None:
    assert sorted(table.kind for table in TABLES.values()) == sorted(KINDS)
    for table in TABLES.values():
        too_fast = any(busbw > LINK_GB_PER_S for *_, busbw in table.lines)
        times = [line[2] for line in table.lines]
        ratio = table.lines[-1][4] / table.lines[-1][3]
        right_factor = {"all_reduce": 1.75, "all_gather": 0.875, "reduce": 1.0}[table.title.partition(": ")[2].split(";")[0]]
        wrong = {
            "one rank": too_fast,
            "warm-up": times[0] > times[-1],
            "factor": abs(ratio - right_factor) > 1e-9,
            "size": "all_gather" in table.title and table.lines[0][0] != 4 * table.lines[0][1] * RANKS,
        }
        assert [kind for kind, found in wrong.items() if found] == [table.kind]
        assert len(repr(table).splitlines()) == 3 + len(table.lines)


def test_liars() -> None:
    assert CHECKS["03/liars"](RIGHT) == "all four errors found, with the right numbers."
    printed = {"A": ("one rank", 524288), "B": ("size", 8 * 2.490), "C": ("warm-up", 1024), "D": ("factor", 11.369 * 1.75)}
    CHECKS["03/liars"](printed)


@pytest.mark.parametrize("name", list(TABLES))
def test_a_liar_that_gets_away(name: str) -> None:
    kind, number = RIGHT[name]
    for other in set(KINDS) - {kind}:
        assert refused("03/liars", {**RIGHT, name: (other, number)}) == f"{name}: not {other}"
    shown = TABLES[name].lines[-1]
    for wrong in (number / 2, 8 * number, shown[4], shown[0], None):
        assert f"{name}: {kind} is right, but not" in refused("03/liars", {**RIGHT, name: (kind, wrong)})
    assert refused("03/liars", {**RIGHT, name: (kind, str(number))}) == (
        f"{name}: {kind} is right; you say '{number}': this is text, not a number"
    )
    assert "" in refused("03/liars", {**RIGHT, name: ("liar", number)})
    assert "is not an answer" in refused("03/liars", {**RIGHT, name: kind})
    assert "for each of A, B, C and D" in refused("03/liars", {key: value for key, value in RIGHT.items() if key != name})
    refused("03/liars", None)


# ---- hosts and NCCL
def test_hosts() -> None:
    assert "right for" in CHECKS["03/hosts"](lambda h, local, n: h * 2 * (h * local - 1) / (h * local) * n)
    for wrong in (
        lambda h, local, n: 2 * (h * local - 1) / (h * local) * n,
        lambda h, local, n: (h - 1) * 2 * (h * local - 1) / (h * local) * n,
        lambda h, local, n: h * local * 2 * (h * local - 1) / (h * local) * n,
        lambda h, local, n: h * 2 * n,
        lambda h, local, n: 2 * (h - 1) * n,
        lambda h, local, n: None,
    ):
        assert "the schedule counts" in refused("03/hosts", wrong)


def test_nccl() -> None:
    machine = NcclMachine(num_ranks=32, num_nodes=4, num_channels=16)
    wanted = max(1 << power for power in range(6, 33) if choices(machine, "all_reduce", 1 << power)[0].algorithm == "tree")
    assert CHECKS["03/nccl"](wanted).startswith("a tree up to 32 MiB on four hosts; on one host the model takes ring")
    assert "takes ring" in refused("03/nccl", 2 * wanted)
    assert "takes tree" in refused("03/nccl", wanted // 2)
    assert "not a power of two" in refused("03/nccl", wanted + 1)
    for nothing in (None, "32 MiB", True):
        refused("03/nccl", nothing)
    assert refused("03/nccl", str(wanted)) == f"you say '{wanted}': this is text, not a number"
    for power in (20, 25, 32):
        assert refused("03/nccl", power) == f"{power} bytes? 2 to the {power} is 1 << {power}"


def test_the_hints_of_the_liars_are_in_the_words_of_the_lab() -> None:
    with pytest.raises(NotYet, match="for all-gather the size is the total"):
        CHECKS["03/liars"]({**RIGHT, "B": ("size", 2.490)})


def right_overtakes(quick: NcclCost, wide: NcclCost) -> float:
    return (wide.latency_us - quick.latency_us) / (1e-3 / quick.gb_per_s - 1e-3 / wide.gb_per_s)


def test_nccl_log() -> None:
    says = CHECKS["03/nccl-log"](right_overtakes)
    assert (
        says == "the table says that broadcast changes at 30.7 KiB; in the log it takes LL up to 16 KiB and Simple from 32 KiB."
    )
    for wrong in (
        lambda quick, wide: -right_overtakes(quick, wide),
        lambda quick, wide: right_overtakes(quick, wide) / 1e3,
        lambda quick, wide: right_overtakes(quick, wide) / 1.024,
        lambda quick, wide: (wide.latency_us - quick.latency_us) / (wide.gb_per_s - quick.gb_per_s),
        lambda quick, wide: (wide.latency_us - quick.latency_us) * (wide.gb_per_s - quick.gb_per_s) * 1e3,
        lambda quick, wide: (wide.latency_us - quick.latency_us) * wide.gb_per_s * 1e3,  # right only where it is twice as wide
        lambda quick, wide: wide.latency_us / (1e-3 / quick.gb_per_s - 1e-3 / wide.gb_per_s),
        lambda quick, wide: 32768,
        lambda quick, wide: None,
    ):
        assert "you say" in refused("03/nccl-log", wrong)


def test_on_one_host_the_model_takes_the_ring_at_every_size() -> None:
    eight = NcclMachine(num_ranks=8, num_channels=24)
    assert {choices(eight, "all_reduce", 1 << power)[0].algorithm for power in range(6, 33)} == {"ring"}


def test_every_check_of_the_lab_is_tested_here() -> None:
    text = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_lab03*.py"))
    assert [name for name in CHECKS if name.startswith("03/") and f'"{name}"' not in text] == []
