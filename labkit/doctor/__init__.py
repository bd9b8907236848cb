"""Will labkit work on this machine? One screen, one verdict per line.

    report = run_checks(ranks=4)
    print(report["memory"].detail)

Checks run side by side, each with a deadline; one that breaks or does not come back is a line of the
report, never a traceback. The calling process never imports torch: what torch knows is asked of a
process of its own.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..machine import DEFAULT_RANKS, MAX_RANKS
from ..units import format_seconds
from .base import CHECKS, Check, Context, Finding
from .records import CheckResult, DoctorReport

__all__ = ["CHECKS", "Check", "CheckResult", "DoctorReport", "Finding", "default_ranks", "run_checks"]

_GOODBYE_S = 2.0  # how long a check may take to end its own processes once the visit is over


def run_checks(
    names: Iterable[str] | None = None,
    *,
    ranks: int | None = None,
    env: Mapping[str, str] | None = None,
    run_root: Path | None = None,
    deadline_s: float | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> DoctorReport:
    """Run the checks called `names` (default: all) for a world of `ranks` ranks.

    `deadline_s` replaces every check's own deadline; `on_result` is called in this thread as results
    come in. Raises UnknownName for a check that does not exist.
    """
    context = Context(default_ranks(os.environ if env is None else env) if ranks is None else ranks, env, run_root)
    chosen = sorted(CHECKS.values() if names is None else {CHECKS[name] for name in names}, key=lambda c: (c.order, c.name))
    began = time.monotonic()
    visits = [_Visit(one, context, deadline_s) for one in chosen]
    results = []
    try:
        for visit in visits:
            results.append(visit.result(began))
            if on_result is not None:
                on_result(results[-1])
    finally:
        context.stop.set()  # on Ctrl-C too: a check that holds processes ends them before we leave
        until = time.monotonic() + _GOODBYE_S
        for visit in visits:
            visit.thread.join(max(0.0, until - time.monotonic()))
    return DoctorReport(tuple(results), context.ranks, time.monotonic() - began)


def default_ranks(env: Mapping[str, str]) -> int:
    """LABKIT_RANKS where it is a sensible number, else 4."""
    text = env.get("LABKIT_RANKS", "").strip()
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_RANKS else DEFAULT_RANKS


class _Visit:
    """One check in its own thread. A daemon, so that a check that never comes back can't hold the process."""

    def __init__(self, one: Check, context: Context, deadline_s: float | None) -> None:
        self.check, self.context = one, context
        self.deadline_s = one.deadline_s if deadline_s is None else deadline_s
        self.found: Finding | None = None
        self.elapsed_s = 0.0
        self.thread = threading.Thread(target=self._run, name=f"labkit-doctor-{one.name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            found = self.check.run(self.context)
        except BaseException as error:  # noqa: BLE001 - a broken check is a finding, whatever it raised
            text = " ".join(str(error).split())
            found = Finding("fail", f"the check itself broke: {type(error).__name__}: {text}"[:300], "please report this line")
        self.elapsed_s = time.monotonic() - began
        self.found = found

    def result(self, began: float) -> CheckResult:
        self.thread.join(max(0.0, began + self.deadline_s - time.monotonic()))
        found, elapsed_s = self.found, self.elapsed_s
        if found is None:
            late = f"no answer within {format_seconds(self.deadline_s)}"
            found = Finding("fail", late, "run it again when the machine is less busy")
            elapsed_s = time.monotonic() - began
        line = CheckResult(self.check.name, self.check.title, found.status, found.detail, found.next_step, dict(found.facts))
        return dataclasses.replace(line, elapsed_s=round(elapsed_s, 4))
