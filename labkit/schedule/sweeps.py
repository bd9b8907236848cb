"""What a sweep over sizes came to: points with spread, bandwidths as the field counts them, a fit and its honesty."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Sequence

from ..errors import UsageError, count, shown
from ..plain import record
from ..units import algbw_gb_per_s, format_bytes, format_seconds, is_whole
from .algorithm import ALGORITHMS
from .bandwidth import FACTORS, busbw_factor
from .cost import Link
from .fit import HeldOut, Sample, hold_out
from .recording import Source, told
from .records import MOST, Comparison, Rounds

# The library's collectives, and the algorithm whose formula is fitted to each. gloo's all-reduce is a ring at every size.
LIBRARY_MODELS = {
    "all_reduce": "ring",
    "all_gather": "ring-all-gather",
    "reduce_scatter": "ring-reduce-scatter",
    "broadcast": "binomial-broadcast",
    "reduce": "binomial-reduce",
    "all_to_all": "pairwise-all-to-all",
}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@record
class Point(Rounds):
    """One size of one contestant: a library collective, or a schedule on the live ranks.

    `num_bytes` is S, the total for all-gather and reduce-scatter; `times_s` are seconds a call, one per round.
    """

    name: str
    collective: str
    world_size: int
    num_bytes: int
    dtype: str
    item_bytes: int
    op: str
    times_s: tuple[float, ...]

    @property
    def count(self) -> int:
        """Elements of one call's count: of a rank's piece where pieces are gathered or scattered."""
        parts = self.world_size if FACTORS[self.collective].times == "n" else 1
        return self.num_bytes // self.item_bytes // parts

    @property
    def algbw_gb_per_s(self) -> float:
        """Bytes over time; 0 where there was no time, as on one acted rank, which sends nothing."""
        return algbw_gb_per_s(self.num_bytes, self.median_s) if self.median_s > 0 else 0.0

    @property
    def busbw_gb_per_s(self) -> float:
        return self.algbw_gb_per_s * busbw_factor(self.collective, self.world_size)

    def sample(self) -> Sample:
        """The same for `fit`."""
        return Sample(LIBRARY_MODELS.get(self.name, self.name), self.world_size, self.num_bytes, self.median_s)


@record
class Sweep:
    """Points in the order they were measured. `interrupted`: by the caller; `error`: why it ended early otherwise.

    `where`: which ranks took part if not all, and on which hosts, with what link.
    """

    backend: str
    world_size: int
    points: tuple[Point, ...]
    warmups: int = 0
    interrupted: bool = False
    error: str = ""
    source: Source | None = None
    where: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.name for point in self.points))

    def of(self, name: str) -> tuple[Point, ...]:
        """The points of one contestant, the smallest first."""
        return tuple(sorted((each for each in self.points if each.name == name), key=lambda each: each.num_bytes))

    def fit(self, name: str, hold: Sequence[int] = ()) -> HeldOut:
        """Latency and bandwidth that explain the points best, without the held-out sizes (the middle one by default)."""
        points = self.of(name)
        sizes = sorted({point.num_bytes for point in points})
        if len(sizes) < 3:
            few = f"{count(len(sizes), 'size')} of {name} {'is' if len(sizes) == 1 else 'are'}"
            raise UsageError(f"{few} too few to fit and hold one out", hint="sweep at least three")
        held = list(hold) or [sizes[len(sizes) // 2]]
        return hold_out([point.sample() for point in points], held)

    def __str__(self) -> str:
        from .tables import table

        return told(table(self), self.source)


@record
class Crossing:
    """Where one algorithm overtakes another: predicted from the fit of few sizes, then measured around there."""

    one: str
    other: str
    world_size: int
    link: Link
    predicted_bytes: float | None
    measured_bytes: float | None
    comparisons: tuple[Comparison, ...]
    source: Source | None = None

    def __str__(self) -> str:
        said = format_bytes(self.predicted_bytes) if self.predicted_bytes is not None else "at no size"
        seen = format_bytes(self.measured_bytes) if self.measured_bytes is not None else "at none of the sizes"
        fitted = f"{format_seconds(self.link.alpha_s)} a message, {1e-9 / max(self.link.beta_s_per_byte, 1e-18):.2f} GB/s"
        both = f"{self.one} and {self.other} on {count(self.world_size, 'rank')}"
        text = f"{both} cross: predicted {said} (from {fitted}), measured {seen}"
        return told(text, self.source)


def crossing_of(pairs: Sequence[tuple[float, float]], *, rises: bool | None = None) -> float | None:
    """The size at which a ratio goes through 1, between points of (size, ratio), on logarithmic scales.

    `rises`: only upwards (True) or only downwards (False), which is not noise the other way round.

    >>> round(crossing_of([(100, 0.5), (10_000, 2.0)]))
    1000
    >>> crossing_of([(100, 0.5), (10_000, 0.9)]) is crossing_of([(100, 0.5), (10_000, 2.0)], rises=False) is None
    True
    """
    logs = [(math.log(size), math.log(ratio)) for size, ratio in sorted(pairs)]
    best, least = None, math.inf
    for index, ((x0, y0), (x1, y1)) in enumerate(itertools.pairwise(logs)):
        if y0 * y1 > 0 or y0 == y1 or rises not in (None, y1 > y0):
            continue
        # noise crosses as well: the right place has the least on the wrong side of it
        side = math.copysign(1, y1 - y0)
        wrong = sum(max(0.0, side * y) for _, y in logs[: index + 1]) + sum(max(0.0, -side * y) for _, y in logs[index + 1 :])
        if wrong < least:
            best, least = math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)), wrong
    return best


def parse_sizes(sizes: Sequence[int] | int | str) -> tuple[int, ...]:
    """Sizes in bytes: a number or a list of them, or text: "1K,64K", or "1K:64M:4" from, to, and by which factor.

    >>> parse_sizes("1K:64K:4"), parse_sizes("8,2M")
    ((1024, 4096, 16384, 65536), (8, 2097152))
    """
    if not isinstance(sizes, str):
        found: tuple[int, ...] = ()
        with contextlib.suppress(TypeError):  # what is neither a number nor many is refused below
            found = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if not found or not all(is_whole(size) and 0 < size <= MOST for size in found):
            raise UsageError(f"{shown(sizes)} are no sizes", hint="give bytes, for example [1024, 65536], or '1K:64M:4'")
        return found
    if ":" not in sizes:
        return tuple(_size(part) for part in sizes.split(","))
    low, high, *rest = sizes.split(":")
    factor = rest[0] if rest else "4"
    if len(rest) > 1 or not re.fullmatch(r"[0-9]{1,6}", factor) or int(factor) < 2:
        raise UsageError(f"{shown(sizes)} is no range of sizes", hint="give from, to and factor, for example 1K:64M:4")
    least, most = _size(low), _size(high)
    if least > most:
        raise UsageError(f"{shown(sizes)} is an empty range", hint="the first size is the smaller one")
    steps = itertools.takewhile(lambda size: size <= most, (least * int(factor) ** power for power in itertools.count()))
    return tuple(steps)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)(i?B?)", text.strip(), flags=re.IGNORECASE | re.ASCII)
    size = 0 if match is None else int(match[1]) * _UNITS[match[2].upper()]
    if not 0 < size <= MOST:
        raise UsageError(f"{shown(text)} is no size", hint="give bytes, or 1K, 64M, 2G (of 1024)")
    return size


def collective_of(name: str) -> str:
    """What a contestant does: a library collective is called like it, an algorithm knows its own."""
    return name if name in LIBRARY_MODELS else ALGORITHMS[name].collective
