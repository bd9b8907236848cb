"""Checks of the lab "What it costs", and its four tables that are not to be believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..schedule import ALGORITHMS, HeldOut, Link, Topology, busbw_factor, busbw_gb_per_s, crossover, host_traffic, predict
from ..schedule.nccl_log import NcclCost, recorded
from ..schedule.nccl_model import NcclMachine, choices
from ..schedule.sweeps import Crossing, Sweep
from ..units import algbw_gb_per_s, format_bytes, format_seconds
from ._base import NotYet, check

LINKS = (Link.of(5, 10), Link.of(600, 1.5), Link.of(30, 40))
MIB = 1 << 20


# ---- the model
@check("03/price")
def price(answer: Callable[[int, float, float, float], Any]) -> str:
    """The seconds of a ring, by alpha and beta."""
    tried = 0
    for link in LINKS:
        for ranks in (2, 3, 4, 8, 100):
            for num_bytes in (0, 1000, 10 * MIB):
                wanted = predict("ring", ranks, num_bytes, link).seconds
                got = answer(ranks, num_bytes, link.alpha_s, link.beta_s_per_byte)
                if not _close(got, wanted):
                    raise NotYet(
                        f"for {num_bytes} bytes on {ranks} ranks you say {_seconds(got)}, not {_seconds(wanted)}",
                        hint="alpha for each message, beta for each byte that a rank sends: both are in the last lab",
                    )
                tried += 1
    return f"right for {tried} rings, from 2 to 100 ranks."


@check("03/busbw")
def busbw(answer: Callable[[int, float, int], Any]) -> str:
    """The bus bandwidth of an all-reduce, in GB/s."""
    for ranks in (2, 3, 4, 8, 64):
        for num_bytes, seconds in ((10**9, 0.1), (4096, 20e-6), (64 * MIB, 3e-3)):
            wanted, got = busbw_gb_per_s("all_reduce", num_bytes, seconds, ranks), answer(num_bytes, seconds, ranks)
            if _close(got, algbw_gb_per_s(num_bytes, seconds)) and ranks > 2:
                raise NotYet("that is algbw", hint="times what each rank has to send of the tensor: 2(p - 1)/p")
            if not _close(got, wanted):
                raise NotYet(
                    f"for {num_bytes} bytes in {seconds} s on {ranks} ranks you say {got}, not {wanted:.4g}",
                    hint="GB are 1e9 bytes, and the factor is 2(p - 1)/p",
                )
    return "as the field's tools count it, from 2 to 64 ranks."


# ---- measured
@check("03/sweep")
def sweep(measured: Any) -> str:
    """A sweep that can be believed: whole, with warm-up, over small and large sizes."""
    points = _whole(measured).of("all_reduce")
    sizes = [point.num_bytes for point in points]
    if len(points) < 5 or max(sizes) < 1000 * min(sizes):
        raise NotYet(f"{len(points)} sizes of all_reduce are too few", hint='sweep "1K:4M:4"')
    if MIB not in sizes:
        raise NotYet("1 MiB is not among the sizes", hint='sweep "1K:4M:4"')
    one, small = points[sizes.index(MIB)], points[0]
    return (
        f"1 MiB took {format_seconds(one.median_s)} ({format_seconds(one.low_s)} to {format_seconds(one.high_s)}), "
        f"busbw {one.busbw_gb_per_s:.3g} GB/s; {format_bytes(small.num_bytes)} took {format_seconds(small.median_s)}."
    )


@check("03/alpha-beta")
def alpha_beta(answer: Callable[[int, tuple[float, float], tuple[float, float]], Any]) -> str:
    """Alpha and beta from two measured points of a ring."""
    for link in LINKS:
        for ranks, small, large in ((2, 1000, 10**7), (4, 1024, MIB), (8, 64, 64 * MIB)):
            points = [(size, predict("ring", ranks, size, link).seconds) for size in (small, large)]
            got = answer(ranks, *points)
            if not isinstance(got, (tuple, list)) or len(got) != 2:
                raise NotYet(f"you return {got}", hint="return alpha, beta")
            for name, value, wanted in zip(("alpha", "beta"), got, (link.alpha_s, link.beta_s_per_byte), strict=True):
                if not _close(value, wanted, 1e-4):
                    raise NotYet(
                        f"{ranks} ranks: {name} comes out as {value}, not {wanted:.4g}",
                        hint="what the large one takes longer is beta's; what is left of the small one is alpha's",
                    )
    return "two points are enough, if nothing disturbs them."


@check("03/held-out")
def held_out(fitted: Any, measured: Any) -> str:
    """A fit, and what it says of a size that it has not seen."""
    points = {point.num_bytes for point in _whole(measured).of("all_reduce")}
    if not isinstance(fitted, HeldOut):
        raise NotYet(f"this check looks at a fit, not at {type(fitted).__name__}", hint='pass it sweep.fit("all_reduce")')
    seen = {each.sample.num_bytes for each in fitted.fit.residuals}
    held = {each.sample.num_bytes for each in fitted.residuals}
    if seen & held:
        raise NotYet("the fit has seen what it is to predict", hint="hold out a size, and fit the others")
    if seen | held != points:
        raise NotYet("the fit is not of this sweep", hint="run the cell with sweep.fit again")
    worst = max(fitted.residuals, key=lambda each: abs(each.relative))
    return (
        f"{_link(fitted.fit.link)}; typical error {fitted.fit.typical:.0%}, "
        f"and {worst.relative:+.0%} at {format_bytes(worst.sample.num_bytes)}, which it had not seen."
    )


# ---- crossover
@check("03/crossover")
def crossing_size(answer: Callable[[int, float, float], Any]) -> str:
    """The size from which the ring is cheaper than recursive doubling."""
    for link in LINKS:
        for ranks in (4, 8, 16, 64):
            wanted = crossover("recursive-doubling", "ring", ranks, link)
            got = answer(ranks, link.alpha_s, link.beta_s_per_byte)
            if wanted is None or not _close(got, wanted, 1e-4):
                said = format_bytes(got) if isinstance(got, (int, float)) else got
                raise NotYet(
                    f"on {ranks} ranks you say {said}, not {format_bytes(wanted or 0)}",
                    hint="set the two times equal, and solve for the bytes",
                )
    return "where the two lines meet, on 4 to 64 ranks."


@check("03/crossing")
def crossing(found: Any) -> str:
    """The crossover of this machine: predicted from a fit, then measured."""
    if not isinstance(found, Crossing) or {found.one, found.other} != {"recursive-doubling", "ring"}:
        raise NotYet("this is no crossing of the two", hint='pass it world.crossing("recursive-doubling", "ring")')
    if len(found.comparisons) < 4:
        raise NotYet(f"only {len(found.comparisons)} sizes were compared", hint="run the cell above again")
    if found.predicted_bytes is None:
        why = " Two ranks just swap their tensors: as many bytes as a ring, in half the steps." if found.world_size == 2 else ""
        return f"by the fit they cross at no size.{why}"
    seen = f"measured {format_bytes(found.measured_bytes)}" if found.measured_bytes else "not seen at the measured sizes"
    return f"predicted {format_bytes(found.predicted_bytes)}, {seen}."


# ---- one large, a thousand small
@check("03/thousand")
def thousand(many: Mapping[int, Any], one: Mapping[int, Any]) -> str:
    """As many bytes in a thousand calls and in one."""
    slow, quick = max(map(float, many.values())), max(map(float, one.values()))
    if not slow > quick > 0:
        raise NotYet(f"{format_seconds(slow)} and {format_seconds(quick)}", hint="run the cell above again, on all ranks")
    return f"{format_seconds(slow)} in a thousand calls, {format_seconds(quick)} in one: {slow / quick:.0f} times as long."


@check("03/bucket")
def bucket(answer: Callable[[int, float, float], Any]) -> str:
    """The size from which latency is at most a tenth of a ring's time."""
    for link in LINKS:
        for ranks in (2, 4, 8):
            got = answer(ranks, link.alpha_s, link.beta_s_per_byte)
            if not isinstance(got, (int, float)) or got <= 0:
                raise NotYet(f"you say {got}", hint="return a number of bytes")
            paid = predict("ring", ranks, got, link)
            if not _close(paid.latency_s, paid.seconds / 10, 1e-3):
                raise NotYet(
                    f"on {ranks} ranks, {format_bytes(got)} spend {paid.latency_s / paid.seconds:.0%} on latency",
                    hint="a tenth is latency if the transfer takes nine times as long as the latency",
                )
    return "a tenth latency, nine tenths transfer."


# ---- four tables, each wrong in its own way
KINDS = ("size", "factor", "warm-up", "one rank")
RANKS, LINK_GB_PER_S = 8, 25.0
_SIZES = tuple(1024 * 8**power for power in range(7))
_NOISE = (1.013, 0.991, 1.007, 0.996, 1.009, 0.988, 1.004)


@dataclass(frozen=True, repr=False)
class Liar:
    """A table as a tool prints it; `number` is what shows that the learner knows why it is wrong."""

    title: str
    lines: tuple[tuple[int, int, float, float, float], ...]
    kind: str
    number: float
    facts: str = f"{RANKS} ranks, a link carries {LINK_GB_PER_S:g} GB/s each way"

    def __repr__(self) -> str:
        head = f"# {self.title}\n# {self.facts}\n"
        names = f"#{'size (B)':>11} {'count':>10} {'type':>8} {'time (us)':>10} {'algbw':>8} {'busbw':>8}\n"
        rows = (f"{a:>12} {b:>10} {'float':>8} {t * 1e6:>10.1f} {c:>8.3f} {d:>8.3f}" for a, b, t, c, d in self.lines)
        return head + names + "\n".join(rows)


def _rows(times: list[float], factor: float, count_of: int = 1) -> tuple[tuple[int, int, float, float, float], ...]:
    """Lines of sizes and times; `factor` is what the table takes for busbw over algbw."""
    made = zip(_SIZES, times, strict=True)
    return tuple((n, n // 4 // count_of, t, n / t / 1e9, n / t / 1e9 * factor) for n, t in made)


def _ring_times(steps: int, factor: float, sizes: tuple[int, ...] = _SIZES) -> list[float]:
    """What a ring would take on the link, at four fifths of its speed."""
    return [(steps * 2e-6 + factor * n / (0.8 * LINK_GB_PER_S * 1e9)) * noise for n, noise in zip(sizes, _NOISE, strict=True)]


def _one_rank() -> Liar:
    """A leaf of the reduce hands its tensor over and is through; nobody waits for the root."""
    lines = _rows([(6e-6 + n / 400e9) * noise for n, noise in zip(_SIZES, _NOISE, strict=True)], 1.0)
    return Liar("A: reduce", lines, "one rank", next(line[0] for line in lines if line[4] > LINK_GB_PER_S))


def _wrong_size() -> Liar:
    """The piece that one rank gives, where the total belongs."""
    factor = busbw_factor("all_gather", RANKS)
    times = _ring_times(RANKS - 1, factor, tuple(RANKS * n for n in _SIZES))
    lines = _rows(times, factor)
    return Liar("B: all_gather; count is what one rank gives", lines, "size", RANKS * lines[-1][4])


def _no_warm_up() -> Liar:
    """The first call pays for connections and buffers."""
    factor = busbw_factor("all_reduce", RANKS)
    times = _ring_times(2 * (RANKS - 1), factor)
    return Liar("C: all_reduce", _rows([0.1843, *times[1:]], factor), "warm-up", _SIZES[0])


def _wrong_factor() -> Liar:
    """The factor of an all-gather, for an all-reduce."""
    right = busbw_factor("all_reduce", RANKS)
    lines = _rows(_ring_times(2 * (RANKS - 1), right), busbw_factor("all_gather", RANKS))
    return Liar("D: all_reduce", lines, "factor", lines[-1][3] * right)


TABLES: Mapping[str, Liar] = {"A": _one_rank(), "B": _wrong_size(), "C": _no_warm_up(), "D": _wrong_factor()}


@check("03/liars")
def liars(answer: Any) -> str:
    """For each table what is wrong with it, and a number that shows why."""
    if not isinstance(answer, Mapping) or set(answer) != set(TABLES):
        raise NotYet("give an answer for each of A, B, C and D", hint='like {"A": ("factor", 12.5), ...}')
    for name, table in TABLES.items():
        try:
            kind, number = answer[name]
        except (TypeError, ValueError):
            raise NotYet(f"{name}: {answer[name]!r} is no answer", hint="give a kind and a number") from None
        if kind not in KINDS:
            raise NotYet(f"{name}: {kind!r} is no kind", hint=f"kinds are {', '.join(KINDS)}")
        if kind != table.kind:
            raise NotYet(f"{name}: not {kind}", hint=_LOOK[table.kind])
        if not _close(number, table.number, 0.02):
            raise NotYet(f"{name}: {kind} it is, but not {number}", hint=_NUMBERS[table.kind])
    return "all four caught, and you can say why."


_LOOK = {
    "size": "multiply the count by the size of a float: is that what all ranks have together?",
    "factor": "divide busbw by algbw in one line: whose factor is that?",
    "warm-up": "is there a line that takes longer than all that are larger?",
    "one rank": "is there a busbw that no link can carry?",
}
_NUMBERS = {
    "size": "the right busbw of the last line: S is the total",
    "factor": "the right busbw of the last line: algbw times 2(p - 1)/p",
    "warm-up": "the size of the line that is not to be believed",
    "one rank": "the size of the first line whose busbw is more than the link carries",
}


# ---- hosts, and what NCCL believes
@check("03/hosts")
def hosts(answer: Callable[[int, int, int], Any]) -> str:
    """The bytes that cross from host to host in a flat ring."""
    link = Link.of(1, 1)
    for num_hosts, local in ((2, 2), (2, 4), (4, 4), (3, 8)):
        ranks = num_hosts * local
        topology, elements = Topology(num_hosts, local, link, link), 16 * ranks
        matrix = host_traffic(ALGORITHMS["ring"].schedule(ranks), elements, topology)
        wanted, got = int(matrix.sum() - matrix.trace()), answer(num_hosts, local, 4 * elements)
        if not _close(got, wanted):
            raise NotYet(
                f"{num_hosts} hosts of {local} ranks, {4 * elements} bytes: you say {got}, the schedule counts {wanted}",
                hint="how many of the ring's links go from host to host, and what goes over each link?",
            )
    return "as counted in the schedules, on 2 to 4 hosts."


@check("03/nccl")
def nccl(answer: Any) -> str:
    """The largest power of two for which NCCL's model takes the tree, on four hosts."""
    machine = NcclMachine(num_ranks=32, num_nodes=4, num_channels=16)
    picked = {1 << power: choices(machine, "all_reduce", 1 << power)[0].algorithm for power in range(6, 33)}
    wanted = max(size for size, algorithm in picked.items() if algorithm == "tree")
    if answer != wanted or isinstance(answer, bool):
        said = picked.get(answer, "nothing, it is no power of two") if isinstance(answer, int) else "no size"
        raise NotYet(f"at {answer} the model takes {said}", hint="the largest size for which the tree comes first")
    alone = choices(NcclMachine(num_ranks=8, num_channels=24), "all_reduce", 1024)[0]
    return f"tree up to {format_bytes(wanted)} on four hosts; on one host even 1 KiB goes by {alone.algorithm}."


@check("03/nccl-log")
def nccl_log(answer: Callable[[NcclCost, NcclCost], Any]) -> str:
    """The size from which a tuner's option with more bandwidth overtakes one with less latency."""
    log = recorded("two-sockets")
    pairs = [tuple(log.cost(op, "ring", protocol) for protocol in ("LL", "Simple")) for op in ("broadcast", "all_gather")]
    pairs.append((NcclCost("all_reduce", "tree", "LL", 25.2, 8.7), NcclCost("all_reduce", "ring", "Simple", 190.0, 200.0)))
    for quick, wide in pairs:
        wanted = (wide.latency_us - quick.latency_us) / (1e-3 / quick.gb_per_s - 1e-3 / wide.gb_per_s)
        got = answer(quick, wide)
        if not _close(got, wanted, 1e-4):
            said = format_bytes(got) if isinstance(got, (int, float)) else got
            raise NotYet(
                f"for {quick.latency_us:g} µs, {quick.gb_per_s:g} GB/s and {wide.latency_us:g} µs, {wide.gb_per_s:g} GB/s "
                f"you say {said}, not {format_bytes(wanted)}",
                hint="set both times equal; 1 GB/s are 1e3 bytes in a µs",
            )
    before, after = (regime[place].num_bytes for regime, place in zip(log.regimes("broadcast"), (-1, 0), strict=True))
    return (
        f"by the table broadcast changes at {format_bytes(answer(*pairs[0]))}; by the log it takes LL up to "
        f"{format_bytes(before)} and Simple from {format_bytes(after)}."
    )


# ---- shared
def _whole(measured: Any) -> Sweep:
    if not isinstance(measured, Sweep):
        raise NotYet(f"this check looks at a sweep, not at {type(measured).__name__}", hint="pass it what world.sweep returned")
    if measured.interrupted or measured.error:
        raise NotYet(f"the sweep ended early: {measured.error or 'interrupted'}", hint="run the cell above again")
    if measured.warmups < 1:
        raise NotYet("this sweep had no warm-up", hint="leave out warmups=0: first calls are slower")
    return measured


def _close(got: Any, wanted: float, tolerance: float = 1e-6) -> bool:
    """
    >>> _close(1.0, 1.0), _close(None, 1.0), _close(1.1, 1.0)
    (True, False, False)
    """
    return isinstance(got, (int, float)) and not isinstance(got, bool) and abs(got - wanted) <= tolerance * abs(wanted)


def _seconds(value: Any) -> str:
    return format_seconds(value) if isinstance(value, (int, float)) else str(value)


def _link(link: Link) -> str:
    speed = f"{1e-9 / link.beta_s_per_byte:.3g} GB/s a link" if link.beta_s_per_byte else "no limit of bandwidth in sight"
    return f"{format_seconds(link.alpha_s)} a message, {speed}"
