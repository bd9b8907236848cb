"""Lab 03: several hosts, what NCCL chooses, and four tables of which each is wrong in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..document import Printed
from ..schedule import ALGORITHMS, Link, Schedule, Topology, busbw_factor, host_traffic
from ..schedule.hosts import HostsReport
from ..schedule.nccl_log import NcclCost, recorded
from ..schedule.nccl_model import NcclMachine, choices
from ..units import format_bytes, is_number, is_whole
from ._base import NotYet, as_number, check, close, function, heard, hold, no_text
from .guess import Answer, Found

# ---- several hosts
MIB = 1 << 20
SHAPES = ((2, 2), (2, 4), (4, 4), (3, 8))


@check("03/hosts")
def hosts(answer: Callable[[int, int, int], Any]) -> str:
    """The bytes that cross from host to host in a flat ring."""
    cases = []
    for num_hosts, local in SHAPES:
        num_bytes = 64 * num_hosts * local
        matrix = _matrix(ALGORITHMS["ring"].schedule(num_hosts * local), num_hosts, local, num_bytes)
        where = f"{num_hosts} hosts of {local} ranks, {num_bytes} bytes:"
        cases.append((where, (num_hosts, local, num_bytes), float(matrix.sum() - matrix.trace())))
    hint = "how many of the ring's links go between hosts, and how many bytes go over each?"
    hold(answer, cases, hint, said="{:.10g}".format, truth="the schedule counts")
    return "right for schedules on 2 to 4 hosts."


@check("03/across")
def across(report: Any) -> Found:
    """What an all-reduce of 1 MiB takes across hosts, in times of what it takes inside one."""
    found = _whole(report)
    if MIB not in found.sizes:
        raise NotYet("1 MiB is not among the sizes", hint="let measure() choose them")
    point = next(point for point in found.across.points if point.num_bytes == MIB)
    where = "as recorded" if found.source is not None else "on this machine"
    return Found(
        f"1 MiB between hosts took {found.slower(MIB):.3g} times as long as inside one, {where}; "
        f"busbw between hosts is {point.busbw_gb_per_s * 8000:.0f} Mbit/s on a link of {found.rate}.",
        Answer(found.slower(MIB), "times as long", noise=1.3),
    )


@check("03/levels")
def levels(answer: Callable[[int, int], Any], report: Any) -> str:
    """How many times as much a host sends out in the flat ring as on two levels, by the schedules and by the clock."""
    cases = []
    for num_hosts, local in SHAPES:
        ranks = num_hosts * local
        flat, two = (
            _out(_matrix(ALGORITHMS[name].schedule(ranks, **params), num_hosts, local, 64 * ranks))
            for name, params in (("ring", {}), ("hierarchical", {"ranks_per_host": local}))
        )
        cases.append((f"{num_hosts} hosts of {local} ranks:", (num_hosts, local), flat / two))
    hint = "a host sends 2n(p - 1)/p bytes in the flat ring; on two levels, the h hosts run a ring among themselves"
    hold(answer, cases, hint, truth="the schedules count")
    found = _whole(report)
    largest = max(found.comparisons, key=lambda each: each.num_bytes)
    counted = as_number(answer(found.num_hosts, found.ranks_per_host))
    return f"counted {counted:.2f} times, measured {found.gain(largest):.2f} times at {format_bytes(largest.num_bytes)}."


def _matrix(schedule: Schedule, num_hosts: int, local: int, num_bytes: int) -> Any:
    link = Link.of(1, 1)
    return host_traffic(schedule, num_bytes // 4, Topology(num_hosts, local, link, link))


def _out(matrix: Any) -> int:
    """The most that one host sends to others."""
    return int((matrix.sum(axis=1) - matrix.diagonal()).max())


def _whole(report: Any) -> HostsReport:
    if not isinstance(report, HostsReport):
        raise NotYet(f"this check needs a hosts report, not {type(report).__name__}", hint="pass it what measure() returned")
    if not report.comparisons or report.inside.error or report.across.error or report.across.interrupted:
        raise NotYet("this measurement ended early", hint="run the cell above again")
    return report


# ---- what NCCL chooses, by its model and in a log
@check("03/nccl")
def nccl(answer: Any) -> str:
    """The largest power of two for which NCCL's model takes the tree, on four hosts."""
    machine = NcclMachine(num_ranks=32, num_nodes=4, num_channels=16)
    picked = {1 << power: choices(machine, "all_reduce", 1 << power)[0].algorithm for power in range(6, 33)}
    wanted = max(size for size, algorithm in picked.items() if algorithm == "tree")
    got = as_number(answer)
    no_text("you say", got)
    if got != wanted or isinstance(got, bool):
        hint = "give the largest size in bytes for which the tree is first"
        if is_whole(got) and 0 < got < 1 << 6:  # nobody asks for so few bytes: it is an exponent
            raise NotYet(f"{got} bytes? 2 to the {got} is 1 << {got}", hint=hint)
        said = picked.get(got, "nothing: it is not a power of two from 1 << 6 to 1 << 32") if is_number(got) else "no size"
        raise NotYet(f"at {heard(got)} the model takes {said}", hint=hint)
    alone = choices(NcclMachine(num_ranks=8, num_channels=24), "all_reduce", 1024)[0]
    return f"a tree up to {format_bytes(wanted)} on four hosts; on one host the model takes {alone.algorithm} even for 1 KiB."


@check("03/nccl-log")
def nccl_log(answer: Callable[[NcclCost, NcclCost], Any]) -> Found:
    """The size from which a tuner's option with more bandwidth overtakes one with less latency."""
    function(answer, 2)
    log = recorded("two-sockets")
    pairs = [(log.cost(op, "ring", "LL"), log.cost(op, "ring", "Simple")) for op in ("broadcast", "all_gather")]
    pairs.append((NcclCost("all_reduce", "tree", "LL", 25.2, 8.7), NcclCost("all_reduce", "ring", "Simple", 190.0, 200.0)))
    cases = [(_both(quick, wide), (quick, wide), _overtakes(quick, wide)) for quick, wide in pairs]
    hold(answer, cases, "set both times equal; 1 GB/s is 1e3 bytes per µs", said=format_bytes, tolerance=1e-4)
    before, after = (regime[place].num_bytes for regime, place in zip(log.regimes("broadcast"), (-1, 0), strict=True))
    return Found(
        f"the table says that broadcast changes at {format_bytes(answer(*pairs[0]))}; in the log it takes LL up to "
        f"{format_bytes(before)} and Simple from {format_bytes(after)}.",
        Answer(after / 1024, "KiB"),
    )


def _overtakes(quick: NcclCost, wide: NcclCost) -> float:
    """The bytes at which both take as long."""
    return (wide.latency_us - quick.latency_us) / (1e-3 / quick.gb_per_s - 1e-3 / wide.gb_per_s)


def _both(quick: NcclCost, wide: NcclCost) -> str:
    one, other = (f"{each.latency_us:g} µs, {each.gb_per_s:g} GB/s" for each in (quick, wide))
    return f"for {one} and {other}"


# ---- the tables
KINDS = ("size", "factor", "warm-up", "one rank")
RANKS, LINK_GB_PER_S = 8, 25.0
_SIZES = tuple(1024 * 8**power for power in range(7))
_NOISE = (1.013, 0.991, 1.007, 0.996, 1.009, 0.988, 1.004)


@dataclass(frozen=True, repr=False)
class Liar(Printed):
    """A table as a tool prints it; `number` is what shows that the learner knows why it is wrong."""

    title: str
    lines: tuple[tuple[int, int, float, float, float], ...]
    kind: str
    number: float
    facts: str = f"{RANKS} ranks, a link carries {LINK_GB_PER_S:g} GB/s each way"


def _rows(times: list[float], factor: float) -> tuple[tuple[int, int, float, float, float], ...]:
    """Lines of sizes and times; `factor` is what the table takes for busbw over algbw."""
    made = zip(_SIZES, times, strict=True)
    return tuple((n, n // 4, t, n / t / 1e9, n / t / 1e9 * factor) for n, t in made)


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
            raise NotYet(f"{name}: {answer[name]!r} is not an answer", hint="give a kind and a number") from None
        if kind not in KINDS:
            raise NotYet(f"{name}: unknown kind {kind!r}", hint=f"the kinds are {', '.join(KINDS)}")
        if kind != table.kind:
            raise NotYet(f"{name}: not {kind}", hint=_LOOK[table.kind])
        no_text(f"{name}: {kind} is right; you say", number)
        if not close(number, table.number, 0.02):
            raise NotYet(f"{name}: {kind} is right, but not {number}", hint=_NUMBERS[table.kind])
    return "all four errors found, with the right numbers."


_LOOK = {
    "size": "multiply the count by the size of a float: is this the total of all ranks?",
    "factor": "divide busbw by algbw in one line: which collective has this factor?",
    "warm-up": "does one line take longer than all larger sizes?",
    "one rank": "is any busbw more than the link can carry?",
}
_NUMBERS = {
    "size": "the right busbw of the last line: for all-gather the size is the total",
    "factor": "the right busbw of the last line: algbw times 2(p - 1)/p",
    "warm-up": "the size in the line that is wrong",
    "one rank": "the size in the first line whose busbw is more than the link can carry",
}
