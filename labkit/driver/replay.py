"""A recording read again: the same results in the same order, or its evidence judged by the rules of today.

Serves two needs. A view, a notebook or a lab can be tried on a run that really happened, without ranks.
And a rule that was changed must still say the same of every run that was ever recorded, or the change of
its words is seen: that is what `rejudge` tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..diagnosis import judge
from ..errors import UsageError, WireError
from ..schedule.records import ScheduleRun
from ..schedule.sweeps import Sweep  # noqa: F401 - a recording may hold one, and is then read as one
from ..wire import CellResult, Diagnosis, Verdict, loads
from .record import Entry


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
