"""Writes a world's results down as they come: one record a line, for a bug report, a lesson, or the rules' corpus.

    world = Recorder(labkit.start(ranks=3), Path("hang.jsonl"))
    world.run_cell("...")

A line is written whole or not at all, so that a recording of a kernel that died can be read. Only the user
may read the file, since cells and their output are in it; folders of this machine are not. Runs of schedules,
comparisons and sweeps are marked with where they were recorded.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import UsageError
from ..plain import dumps, record, tidy
from ..schedule.recording import marked
from .world import World


@record
class Entry:
    """One line of a recording: which call of the world gave `value`, and a note of whoever recorded it."""

    call: str
    value: Any
    note: str = ""


class Recorder:
    """A world whose results are also written to a file; in everything else it is that world.

    `note` stands in every line from then on: a test's name, or what is being tried.
    """

    def __init__(self, world: World, path: Path, note: str = "") -> None:
        self._world, self._path, self.note = world, path, note
        self._file = _create(path)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._world, name)
        return self._noting(name, value) if callable(value) and not name.startswith("_") else value

    def _noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            self.write(name, result)
            return result

        return call

    def write(self, call: str, value: Any) -> None:
        """Write one record down; anything that is not one (a pulled value, an injection at work) is left out."""
        value = getattr(value, "record", value)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return
        if hasattr(value, "source"):
            value = marked(value, self.note)
        line = dumps(Entry(call, tidy(value), self.note)) + "\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        """Close the file; the world stays."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _create(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="give another name, or remove it first") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}", hint="give a folder that exists and is yours") from None
