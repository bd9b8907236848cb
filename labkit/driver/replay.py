"""A recording, written and read again: the same results in the same order, or its evidence judged by the rules of today.

Serves two needs. A view, a notebook or a lab can be tried on a run that really happened, without ranks.
And a rule that was changed must still say the same of every run that was ever recorded, or the change of
its words is seen: that is what `rejudge` tells.

`Recorder` writes a world's results down as they come: one record a line, for a bug report, a lesson, or the rules' corpus.

    world = Recorder(labkit.start(ranks=3), Path("hang.jsonl"))
    world.run_cell("...")

A line is written whole or not at all, so that a recording of a kernel that died can be read. Only the user
may read the file, since cells and their output are in it; folders of this machine are not. Runs of schedules,
comparisons and sweeps are marked with where they were recorded.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

from ..diagnosis import judge
from ..errors import UsageError, WireError
from ..plain import dumps, record, tidy
from ..schedule.recording import marked
from ..schedule.records import ScheduleRun
from ..wire import CellResult, Diagnosis, Verdict, loads
from .world import World


@dataclass(frozen=True)
class Change:
    """A line of a recording of which the rules now say something else."""

    line: int
    note: str
    before: tuple[Verdict, ...]
    after: tuple[Verdict, ...]

    @property
    def only_words(self) -> bool:
        """The same codes and culprits, said in other words."""
        return _gist(self.before) == _gist(self.after)

    def __str__(self) -> str:
        return f"line {self.line}{f' ({self.note})' if self.note else ''}: {_say(self.before)} -> {_say(self.after)}"


def _gist(verdicts: Sequence[Verdict]) -> list[tuple[str, tuple[int, ...]]]:
    return [(verdict.code, tuple(verdict.culprits)) for verdict in verdicts]


def _say(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(f"{verdict.code} {verdict.sentence}" for verdict in verdicts) or "healthy"


class Replay:
    """A recording, line by line; asked like a world, it answers with what was recorded next.

    >>> from labkit.wire import Evidence
    >>> replay = Replay([Entry("diagnose", Diagnosis((), Evidence(2)))])
    >>> replay.diagnose().healthy, replay.rejudge()
    (True, ())
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        self._at = 0

    @classmethod
    def read(cls, path: Path) -> Replay:
        """A file that a Recorder wrote; a last line that was cut off is left out. WireError if it is no recording."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise UsageError(f"can't read {path}: {error.strerror}", hint="give the file that was recorded") from None
        except UnicodeDecodeError:
            raise WireError(f"{path} is no recording", hint="give a file that was recorded by labkit") from None
        entries = []
        for number, line in enumerate(lines[:-1], start=1):  # what follows the last line end was not written whole
            try:
                entry = loads(line)
            except (WireError, TypeError) as error:
                raise WireError(f"{path}, line {number}: {error}", hint="the recording is damaged") from None
            if not isinstance(entry, Entry):
                raise WireError(f"{path}, line {number} is no entry of a recording", hint="give a file recorded by labkit")
            entries.append(entry)
        return cls(entries)

    # ---- the same again
    def __iter__(self) -> Iterator[Any]:
        return (entry.value for entry in self.entries)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self._next(name)

    def _next(self, call: str) -> Any:
        if self._at >= len(self.entries):
            raise UsageError(f"the recording has no {call} any more", hint=f"it ends after {len(self.entries)} results")
        entry = self.entries[self._at]
        if entry.call != call:
            raise UsageError(
                f"the recording goes on with {entry.call}, not {call}", hint=f"see line {self._at + 1}; ask in the same order"
            )
        self._at += 1
        return entry.value

    # ---- judged anew
    def diagnoses(self) -> Iterator[tuple[int, str, Diagnosis]]:
        """(line, note, diagnosis) of every result that has one."""
        for number, entry in enumerate(self.entries, start=1):
            value = entry.value
            found = value.diagnosis if isinstance(value, (CellResult, ScheduleRun)) else value
            if isinstance(found, Diagnosis):
                yield number, entry.note, found

    def rejudge(self) -> tuple[Change, ...]:
        """Where the rules of today say something else than was said then."""
        changes = []
        for number, note, diagnosis in self.diagnoses():
            after = judge(diagnosis.evidence)
            if after != tuple(diagnosis.verdicts):
                changes.append(Change(number, note, tuple(diagnosis.verdicts), after))
        return tuple(changes)


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
