"""Lab 03, what it costs: the model, what was measured, and where one overtakes another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..schedule import HeldOut, Link, busbw_gb_per_s, crossover, predict
from ..schedule.sweeps import Crossing, Sweep
from ..units import algbw_gb_per_s, format_bytes, format_seconds, is_number
from ._base import Case, NotYet, as_number, check, close, function, heard, hold, no_text, right
from .guess import Answer, Found

LINKS = (Link.of(5, 10), Link.of(600, 1.5), Link.of(30, 40))
MIB = 1 << 20


# ---- the model
@check("03/price")
def price(answer: Callable[[int, float, float, float], Any]) -> str:
    """The seconds of a ring, by alpha and beta; of a wrong answer, which of the two parts is wrong."""
    function(answer, 4)
    cases: list[Case] = [
        (
            f"for {size} bytes on {ranks} ranks",
            (ranks, size, link.alpha_s, link.beta_s_per_byte),
            predict("ring", ranks, size, link).seconds,
        )
        for link, ranks, size in itertools.product(LINKS, (2, 3, 4, 8, 100), (0, 1000, 10 * MIB))
    ]
    if not right(answer, cases):
        _parts(answer)
    hint = "each part alone is right: add them for each message"
    return f"right for {hold(answer, cases, hint, said=_microseconds)} rings, from 2 to 100 ranks."


def _parts(answer: Callable[[int, float, float, float], Any]) -> None:
    """NotYet says which part of a ring's price is wrong: that of the messages, or that of the bytes."""
    alpha_s, beta_s = 5e-6, 1e-8

    def apart(ranks: int, size: float, alpha: float, beta: float) -> Any:
        try:
            return answer(ranks, size, alpha, beta)
        except ZeroDivisionError:
            raise NotYet(
                f"with {'beta' if alpha else 'alpha'} = 0 you divide by 0",
                hint="alpha is in seconds per message, beta in seconds per byte: multiply by them",
            ) from None

    messages: list[Case] = [
        (f"the messages' part (beta = 0), {ranks} ranks, 5 µs each:", (ranks, 8400, alpha_s, 0.0), 2 * (ranks - 1) * alpha_s)
        for ranks in (4, 3, 8)
    ]
    hold(apart, messages, "2(p - 1) messages cost alpha each", said=_microseconds)
    for sizes, hint in (
        ((8400,), "2(p - 1) messages with n/p bytes each; do not use //"),
        ((50,), "use n/p without rounding: / instead of //"),
    ):
        parts: list[Case] = [
            (
                f"the bytes' part (alpha = 0), {ranks} ranks, {size} bytes, 0.01 µs each:",
                (ranks, size, 0.0, beta_s),
                2 * (ranks - 1) / ranks * size * beta_s,
            )
            for ranks in (4, 3, 7)
            for size in sizes
        ]
        hold(apart, parts, hint, said=_microseconds)


@check("03/busbw")
def busbw(answer: Callable[[int, float, int], Any]) -> str:
    """The bus bandwidth of an all-reduce, in GB/s."""
    function(answer, 3)
    tried = itertools.product((2, 3, 4, 8, 64), ((10**9, 0.1), (100, 10e-6), (4096, 20e-6), (64 * MIB, 3e-3)))
    cases = [
        (
            f"for {size} bytes in {seconds} s on {ranks} ranks",
            (size, seconds, ranks),
            busbw_gb_per_s("all_reduce", size, seconds, ranks),
        )
        for ranks, (size, seconds) in tried
    ]
    if close(answer(4096, 20e-6, 8), algbw_gb_per_s(4096, 20e-6)):
        raise NotYet("that is algbw", hint="multiply it by the share of the tensor that each rank sends: 2(p - 1)/p")
    hold(answer, cases, "1 GB is 1e9 bytes, and the factor is 2(p - 1)/p; do not use //")
    return "right from 2 to 64 ranks, as benchmark tools compute it."


# ---- measured
@check("03/sweep")
def sweep(measured: Any) -> Found:
    """A sweep that can be believed: whole, with warm-up, over small and large sizes."""
    points = _whole(measured).of("all_reduce")
    sizes = [point.num_bytes for point in points]
    if len(points) < 5 or max(sizes) < 1000 * min(sizes):
        raise NotYet(f"{len(points)} sizes of all_reduce are too few", hint='sweep "1K:4M:4"')
    if MIB not in sizes:
        raise NotYet("1 MiB is not among the sizes", hint='sweep "1K:4M:4"')
    one, small = points[sizes.index(MIB)], points[0]
    return Found(
        f"1 MiB took {format_seconds(one.median_s)} ({format_seconds(one.low_s)} to {format_seconds(one.high_s)}), "
        f"busbw {one.busbw_gb_per_s:.3g} GB/s; {format_bytes(small.num_bytes)} took {format_seconds(small.median_s)}.",
        Answer((1e3 * one.median_s, one.busbw_gb_per_s), "ms, GB/s", noise=1.3),
    )


@check("03/alpha-beta")
def alpha_beta(answer: Callable[[int, tuple[float, float], tuple[float, float]], Any]) -> str:
    """Alpha and beta from two measured points of a ring."""
    function(answer, 3)
    for link in LINKS:
        for ranks, small, large in ((2, 1000, 10**7), (4, 1024, MIB), (8, 64, 64 * MIB)):
            points = [(size, predict("ring", ranks, size, link).seconds) for size in (small, large)]
            got = answer(ranks, *points)
            if not isinstance(got, (tuple, list)) or len(got) != 2:
                raise NotYet(f"you return {heard(got)}", hint="return alpha, beta")
            alpha, beta = map(as_number, got)
            for name, value, wanted in (("beta", beta, link.beta_s_per_byte), ("alpha", alpha, link.alpha_s)):
                no_text(f"{ranks} ranks: {name} comes out as", value)
                if not close(value, wanted, 1e-4):
                    said = f"{value:.6g}" if is_number(value) else value
                    raise NotYet(
                        f"{ranks} ranks: {name} comes out as {said}, not {wanted:.6g}",
                        hint="the extra time of the large one gives beta; the rest of the small one gives alpha",
                    )
    return "two points are enough if there is no noise."


@check("03/held-out")
def held_out(fitted: Any, measured: Any) -> Found:
    """A fit, and what it says of a size that it has not seen."""
    points = {point.num_bytes for point in _whole(measured).of("all_reduce")}
    if not isinstance(fitted, HeldOut):
        raise NotYet(f"this check needs a fit, not {type(fitted).__name__}", hint='pass it sweep.fit("all_reduce")')
    seen = {each.sample.num_bytes for each in fitted.fit.residuals}
    held = {each.sample.num_bytes for each in fitted.residuals}
    if seen & held:
        raise NotYet("the fit used the size it should predict", hint="hold out a size and fit the others")
    if seen | held != points:
        raise NotYet("the fit does not belong to this sweep", hint="run the cell with sweep.fit again")
    worst = max(fitted.residuals, key=lambda each: abs(each.relative))
    return Found(
        f"{_link(fitted.fit.link)}; typical error {fitted.fit.typical:.0%}, "
        f"and {worst.relative:+.0%} at {format_bytes(worst.sample.num_bytes)}, which the fit had not seen.",
        Answer(100 * abs(float(worst.relative)), "%", noise=1.5),
    )


# ---- crossover
@check("03/crossover")
def crossing_size(answer: Callable[[int, float, float], Any]) -> str:
    """The size from which the ring is cheaper than recursive doubling."""
    cases = [
        (
            f"on {ranks} ranks",
            (ranks, link.alpha_s, link.beta_s_per_byte),
            crossover("recursive-doubling", "ring", ranks, link) or 0.0,
        )
        for link, ranks in itertools.product(LINKS, (4, 8, 16, 64))
    ]
    hold(answer, cases, "set the two times equal and solve for the bytes", said=format_bytes, tolerance=1e-4)
    return "right: the two times are equal there, on 4 to 64 ranks."


@check("03/crossing")
def crossing(found: Any) -> Found:
    """The crossover of this machine: predicted from a fit, then measured."""
    if not isinstance(found, Crossing) or {found.one, found.other} != {"recursive-doubling", "ring"}:
        raise NotYet("this is not a crossing of the two", hint='pass it world.crossing("recursive-doubling", "ring")')
    if len(found.comparisons) < 4:
        raise NotYet(f"only {len(found.comparisons)} sizes were compared", hint="run the cell above again")
    if found.predicted_bytes is None:
        why = (
            " Two ranks only exchange their tensors: as many bytes as a ring, in half the steps." if found.world_size == 2 else ""
        )
        nowhere = Answer("no size", source="they cross at", also=("none", "never", "nowhere", math.inf, 0))
        return Found(f"by the fit they never cross.{why}", nowhere)
    seen = f"measured {format_bytes(found.measured_bytes)}" if found.measured_bytes else "not found among the measured sizes"
    kib, source = (found.measured_bytes or found.predicted_bytes) / 1024, "measured" if found.measured_bytes else "the fit says"
    answer = Answer(kib, "KiB", noise=2.0, source=source)
    return Found(f"predicted {format_bytes(found.predicted_bytes)}, {seen}.", answer)


# ---- one large, a thousand small
@check("03/thousand")
def thousand(many: Mapping[int, Any], one: Mapping[int, Any]) -> Found:
    """As many bytes in a thousand calls and in one."""
    slow, quick = max(map(float, many.values())), max(map(float, one.values()))
    if not slow > quick > 0:
        raise NotYet(f"{format_seconds(slow)} and {format_seconds(quick)}", hint="run the cell above again, on all ranks")
    says = f"a thousand calls took {format_seconds(slow)}, one call {format_seconds(quick)}: {slow / quick:.0f} times longer."
    return Found(says, Answer(slow / quick, "times as long", noise=1.3))


@check("03/bucket")
def bucket(answer: Callable[[int, float, float], Any]) -> str:
    """The size from which latency is at most a tenth of a ring's time."""
    function(answer, 3)
    for link in LINKS:
        for ranks in (2, 4, 8):
            got = as_number(answer(ranks, link.alpha_s, link.beta_s_per_byte))
            no_text("you say", got)
            if not is_number(got) or not got > 0:
                raise NotYet(f"you say {heard(got)}", hint="return a number of bytes")
            paid = predict("ring", ranks, got, link)
            if not close(paid.latency_s, paid.seconds / 10, 1e-3):
                raise NotYet(
                    f"on {ranks} ranks, {format_bytes(got)} spend {paid.latency_s / paid.seconds:.0%} on latency",
                    hint="latency is a tenth if the transfer takes nine times as long as the latency",
                )
    return "right: one tenth latency, nine tenths transfer."


# ---- shared
def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.6g} µs"


def _whole(measured: Any) -> Sweep:
    if not isinstance(measured, Sweep):
        raise NotYet(f"this check needs a sweep, not {type(measured).__name__}", hint="pass it what world.sweep returned")
    if measured.interrupted or measured.error:
        raise NotYet(f"the sweep ended early: {measured.error or 'interrupted'}", hint="run the cell above again")
    if measured.warmups < 1:
        raise NotYet("this sweep had no warm-up", hint="remove warmups=0: the first calls are slower")
    return measured


def _link(link: Link) -> str:
    speed = f"{1e-9 / link.beta_s_per_byte:.3g} GB/s per link" if link.beta_s_per_byte else "no bandwidth limit found"
    return f"{format_seconds(link.alpha_s)} per message, {speed}"
