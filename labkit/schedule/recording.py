"""Runs, comparisons and sweeps kept in a file and given again: the same records, which say that they are recordings.

For a machine on which they can't be made: a lab then shows what another machine measured, and every picture of it says
so. A file is one record as JSON, and it is there whole or not at all.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UsageError, WireError
from ..plain import dumps, loads, tidy
from .records import Source
from .validation import validation_error

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
