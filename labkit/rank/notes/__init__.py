"""Finding slips that show in wrong numbers only, while a cell runs; one file per kind.

A check hears of every collective that the learner's own code makes, after it has returned. Nearly all calls are right, so
a check looks first at what costs nothing, and asks for frames and source lines only where something is odd.
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import torch.distributed as dist

from ...frames import is_users_file
from ...notes import Finding
from ...registry import Registry
from ...wire import CallSite

MOST = 20  # places in one cell
_LABKIT = str(Path(__file__).resolve().parents[2])


class Check:
    """One kind of slip. `after` comes after each call of the learner's; `close` at the end of a cell."""

    kind: ClassVar[str] = ""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A call has returned `result`."""

    def close(self, ok: bool) -> None:
        """The cell is over; `ok` if it ended by itself."""

    def forget(self) -> None:
        """The process groups are gone."""


CHECKS: Registry[type[Check]] = Registry("check", "labkit.rank.notes")


class Notes:
    """What the checks of this rank have found in the running cell."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.checks = [kind(self) for kind in CHECKS.values()]
        self._after = [check.after for check in self.checks if type(check).after is not Check.after]
        self._found: dict[tuple[str, str, str], Finding] = {}

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A call of the Python layer has returned."""
        for look in self._after:
            look(name, args, kwargs, result)

    def say(self, kind: str, op: str, site: CallSite, **facts: Any) -> None:
        """Write a finding down; the same place again only counts."""
        key = (kind, op, str(site))
        known = self._found.get(key)
        if known is not None:
            merged = {name: known.facts.get(name) or value for name, value in facts.items()}
            self._found[key] = replace(known, times=known.times + 1, facts=merged)
        elif len(self._found) < MOST:
            source = linecache.getline(site.file, site.line).strip()
            self._found[key] = Finding(kind, op, str(site), source, 1, facts)

    def begin_cell(self) -> None:
        """Findings are told of one cell only."""
        self._found.clear()

    def close(self, ok: bool) -> None:
        """The cell is over."""
        for check in self.checks:
            check.close(ok)

    def forget(self) -> None:
        """The process groups are gone."""
        for check in self.checks:
            check.forget()

    def take(self) -> list[Finding]:
        """What was found in this cell; it is handed out once."""
        found = list(self._found.values())
        self._found.clear()
        return found


def learners_frame() -> FrameType | None:
    """The frame that has made this call, if it is the learner's own; None for what a library makes."""
    at: FrameType | None = sys._getframe(1)
    while at is not None and is_ours(at):
        at = at.f_back
    return at if at is not None and is_users_file(at.f_code.co_filename) else None


def is_ours(frame: FrameType) -> bool:
    """Whether a frame is labkit's."""
    return frame.f_code.co_filename.startswith(_LABKIT)


def site_of(frame: FrameType) -> CallSite:
    """Where a frame is."""
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def given(args: tuple[Any, ...], kwargs: dict[str, Any], at: int, name: str, default: Any = None) -> Any:
    """An argument by its place or its name."""
    return args[at] if len(args) > at else kwargs.get(name, default)


def group_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The process group of a call."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, dist.ProcessGroup):
            return value
    return dist.group.WORLD
