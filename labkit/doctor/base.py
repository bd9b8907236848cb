"""What a check is, what it is given, and what it answers.

A check is one file in `checks/` with two parts: a pure `judge_...` over plain facts, which tests feed
with machines nobody has at hand, and a short function that gathers the facts and is registered here.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..registry import Registry
from .records import STATUSES

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict without the name of its check; the fields are those of `CheckResult`."""

    status: str
    detail: str
    next_step: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def worst(findings: list[Finding], otherwise: Finding) -> Finding:
    """Several findings as one line, the worst first and its status for all; without any, `otherwise`.

    >>> worst([Finding("note", "a"), Finding("fail", "b", "mend b")], Finding("ok", "fine"))
    Finding(status='fail', detail='b; a', next_step='mend b', facts={})
    """
    if not findings:
        return otherwise
    ranked = sorted(findings, key=lambda finding: -STATUSES.index(finding.status))
    steps = dict.fromkeys(finding.next_step for finding in ranked if finding.next_step)
    return Finding(ranked[0].status, "; ".join(f.detail for f in ranked), "; ".join(steps), otherwise.facts)


class Context:
    """What all checks of one visit share.

    `shared` gathers a fact that several checks need (torch's versions, the list of GPUs) only once;
    `stop` is set when the visit is over, and whoever waits for a process looks at it.
    """

    def __init__(self, ranks: int, env: Mapping[str, str] | None = None, run_root: Path | None = None) -> None:
        from ..runfolder import run_root as default_run_root

        self.ranks = ranks
        self.env: dict[str, str] = dict(os.environ if env is None else env)
        self.run_root = run_root or default_run_root()
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._facts: dict[str, tuple[threading.Lock, list[Any]]] = {}

    def shared(self, name: str, gather: Callable[[], T]) -> T:
        """The fact `name`; the first to ask gathers it, the others wait for it."""
        with self._lock:
            lock, kept = self._facts.setdefault(name, (threading.Lock(), []))
        with lock:
            if not kept:
                kept.append(gather())
            value: T = kept[0]
            return value


@dataclasses.dataclass(frozen=True)
class Check:
    """A registered check; `order` is its place in the report, `deadline_s` its share of patience."""

    name: str
    title: str
    run: Callable[[Context], Finding]
    order: int
    deadline_s: float


CHECKS: Registry[Check] = Registry("check", "labkit.doctor.checks")


def check(name: str, title: str, *, order: int, deadline_s: float = 8.0) -> Callable[[Callable[[Context], Finding]], Check]:
    """Register the decorated function as a check."""
    return lambda run: CHECKS.add(name, Check(name, title, run, order, deadline_s))
