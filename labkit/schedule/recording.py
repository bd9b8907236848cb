"""Runs, comparisons and sweeps kept in a file and given again: the same records, which say that they are recordings.

For a machine on which they can't be made: a lab then shows what another machine measured, and every picture of it says
so. A file is one record as JSON, and it is there whole or not at all.

What is read is held against what such a record can be (`validation_error`). No function of labkit makes a record with
right types and wrong contents, but a file that was cut or changed can hold one, and drawing it would fail.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from ..errors import LabkitError, UsageError, WireError
from ..plain import dumps, loads, tidy
from .algorithm import ALGORITHMS
from .collective import FACTORS
from .hosts import FLAT, LEVELS, HostsReport
from .nccl_log import NcclLog, NcclRing
from .records import Comparison, RankRun, Rounds, ScheduleRun, Source
from .sweeps import Crossing, Point

T = TypeVar("T")


def marked(value: T, about: str = "", *, backend: str = "") -> T:
    """The record with its source filled in, as made here and now; one that has a source already is left as it is.

    UsageError for a record that can't say where it comes from.
    """
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    if "source" not in fields or isinstance(value, type):
        raise UsageError(
            f"a {type(value).__name__} can't be marked as a recording",
            hint="save what run_schedule, compare, sweep or crossing gives; labkit.testing.record keeps the rest",
        )
    found: Any = value
    if found.source is not None:
        return value
    source = Source(
        recorded_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), machine=_machine(),
        backend=backend or _backend(found), world_size=found.world_size, versions=_versions(), about=about,
    )  # fmt: skip
    return tidy(dataclasses.replace(found, source=source))  # type: ignore[no-any-return]


def save_record(path: str | Path, value: Any, about: str = "", *, backend: str = "") -> Path:
    """Write what `run_schedule`, `compare`, `sweep` or `crossing` gave to a new file, marked as a recording.

    >>> from .records import Comparison, Timing
    >>> found = Comparison(2, 1024, "float32", (Timing("ring", (2e-3,)), Timing("library", (1e-3,))))
    >>> path = save_record(Path(tempfile.mkdtemp()) / "compare.json", found, "a ring on two ranks", backend="gloo")
    >>> again = load_record(path)
    >>> again.timings == found.timings, again.source.about
    (True, 'a ring on two ranks')
    """
    target, text = _named(path), dumps(marked(value, about, backend=backend)) + "\n"
    try:
        there = target.exists()
        if not there:
            _write(target, text)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = getattr(error, "strerror", error)
        raise UsageError(f"can't write {target}: {reason}", hint="give a folder that exists and is yours") from None
    if there:
        raise UsageError(f"{target} already exists", hint="give another name, or remove it first")
    return target


def _write(target: Path, text: str) -> None:
    """Whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_record(path: str | Path) -> Any:
    """The record in a file that `save_record` wrote; its `source` says where it comes from, and so does its text."""
    file = _named(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", hint="give a file that save_record wrote") from None
    except ValueError:  # no text, or a name with a NUL
        raise WireError(f"{path} is not a recording", hint="give a file that save_record wrote") from None
    try:
        found = loads(text, strict=True)
    except (WireError, TypeError) as error:
        raise WireError(f"{path}: {getattr(error, 'what', error)}", hint="the recording is damaged") from None
    if not isinstance(getattr(found, "source", None), Source):
        raise WireError(f"{path} is not a recording", hint="give a file that save_record wrote")
    wrong = validation_error(found)
    if wrong:
        raise WireError(f"{path}: a damaged {type(found).__name__}: {wrong}", hint="make it again, or take another copy")
    return found


def _named(path: Any) -> Path:
    """The path of a file; UsageError for what names none."""
    if not isinstance(path, (str, Path)) or not Path(path).name:
        raise UsageError(f"{path!r} is not a file name", hint="give a name such as compare.json")
    return Path(path)


def _backend(found: Any) -> str:
    """A record's own, or that of what it was made of."""
    parts = (found, *getattr(found, "comparisons", ()))
    return next((str(part.backend) for part in parts if getattr(part, "backend", "")), "")


def _machine() -> str:
    """What kind of machine this is, without its name."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


def _versions() -> dict[str, str]:
    found = {}
    for name in ("labkit", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


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
