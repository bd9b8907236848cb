"""What the doctor found: one result per check, one report per visit."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..document import Printed
from ..wire import record

STATUSES = ("ok", "note", "warn", "fail")  # from harmless to harmful; their order is used


@record
class CheckResult(Printed):
    """One line of the report.

    `status`: "ok", "note" (good to know), "warn" (works now, will bite later) or "fail" (something
    will not work). `next_step` is what to type or change, "" if there is nothing to do. `facts` are
    the plain values the verdict rests on.
    """

    name: str
    title: str
    status: str
    detail: str
    next_step: str = ""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    elapsed_s: float = 0.0


@record
class DoctorReport(Printed):
    """All results, in the order they are read, for a world of `ranks` ranks."""

    results: tuple[CheckResult, ...]
    ranks: int = 0
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """True if nothing is known that will not work."""
        return all(result.status != "fail" for result in self.results)

    @property
    def exit_code(self) -> int:
        """0, or 1 if something will not work."""
        return 0 if self.ok else 1

    def count(self, status: str) -> int:
        return sum(result.status == status for result in self.results)

    def __getitem__(self, name: str) -> CheckResult:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)
