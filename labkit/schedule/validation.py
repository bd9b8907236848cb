"""What is wrong with a record that was read from a file although its fields have the right types.

No function of labkit makes such a record, but a file that was cut or changed can hold one, and drawing it would fail.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import LabkitError
from .algorithm import ALGORITHMS
from .collective import FACTORS
from .hosts import FLAT, LEVELS, HostsReport
from .nccl_log import NcclLog, NcclRing
from .records import Comparison, RankRun, Rounds, ScheduleRun, Source
from .sweeps import Crossing, Point

_MOST = 1e18  # of any amount
_RANKS = 1 << 20  # and of ranks


def validation_error(found: Any) -> str:
    """The first thing that is wrong with a record or with a record in it, in words; "" if nothing is."""
    for each in _records(found):
        wrong = _amounts(each) or next((said for kind, check in _CHECKS if isinstance(each, kind) and (said := check(each))), "")
        if wrong:
            return wrong if each is found else f"a {type(each).__name__} in it: {wrong}"
    try:
        str(found)
    except (LabkitError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, StopIteration) as error:
        return f"it has no text: {getattr(error, 'what', '') or type(error).__name__}"
    return ""


def _records(value: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(value):
        yield value
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    elif isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for item in value:
            yield from _records(item)


def _amounts(found: Any) -> str:
    """No number is infinite or NaN (except for `worst`, the error of a wrong result), and no world is empty."""
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        numbers = value if isinstance(value, tuple) else (value,)
        free = isinstance(found, RankRun) and field.name == "worst"
        if not free and any(isinstance(each, float) and not abs(each) < _MOST for each in numbers):
            return f"{field.name} has {next(each for each in numbers if not abs(each) < _MOST)} in it"
        least = 0 if isinstance(found, (NcclLog, Source)) else 1  # which may not know
        if field.name in ("world_size", "num_hosts", "ranks_per_host") and not least <= value <= _RANKS:
            return f"{field.name} is {value}"
    return ""


def _rounds(found: Rounds) -> str:
    return "" if found.times_s and min(found.times_s) > 0 else "a round has no time"


def _point(found: Point) -> str:
    if found.collective not in FACTORS:
        return f"there is no collective {found.collective!r}"
    return "" if found.item_bytes > 0 and found.num_bytes > 0 else "it has no size"


def _comparison(found: Comparison) -> str:
    if len({each.name for each in found.timings}) < max(len(found.timings), 1):
        return "it has no timings, or two with one name"
    if len({len(each.times_s) for each in found.timings}) > 1:
        return "its timings have different numbers of rounds"
    return "" if found.num_bytes > 0 else "it has no size"


def _run(found: ScheduleRun) -> str:
    if found.ended and len(found.declared) != found.world_size:
        return f"{len(found.declared)} ranks are declared, not {found.world_size}"
    return "two of its ranks have one number" if len({each.rank for each in found.ranks}) < len(found.ranks) else ""


def _crossing(found: Crossing) -> str:
    for name in (found.one, found.other):
        if name not in ALGORITHMS:
            return f"there is no algorithm {name!r}"
    if found.one == found.other or ALGORITHMS[found.one].collective != ALGORITHMS[found.other].collective:
        return f"{found.one} and {found.other} can't cross"
    sizes = [size for size in (found.predicted_bytes, found.measured_bytes) if size is not None]
    return "it crosses at no size" if any(size <= 0 for size in sizes) else ""


def _hosts(found: HostsReport) -> str:
    names = [{timing.name for timing in each.timings} >= {FLAT, LEVELS} for each in found.comparisons]
    return "" if all(names) else f"not all of its comparisons have {FLAT} and {LEVELS}"


def _nccl(found: NcclLog) -> str:
    ranks = itertools.chain(
        *(each.ranks for each in found.rings), *found.hosts, *((each.rank, *each.children) for each in found.trees),
        *((each.source, each.target) for each in found.links),
    )  # fmt: skip
    end = found.world_size or _RANKS  # a log may show connections and not tell the size
    if any(not 0 <= rank < end for rank in ranks):
        return f"it names a rank that a world of {found.world_size or 'any size'} does not have"
    return "" if all(found.hosts) else "a host has no rank"


_CHECKS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Rounds, _rounds), (Point, _point), (Comparison, _comparison), (ScheduleRun, _run), (Crossing, _crossing),
    (HostsReport, _hosts), (NcclLog, _nccl),
    (NcclRing, lambda ring: "" if 0 < len(set(ring.ranks)) == len(ring.ranks) else "a ring passes a rank twice, or none"),
)  # fmt: skip
