"""One rank cell from send to end: waits, looks for stalls, and stops at a deadline or at a certain verdict.

A stall is no progress on any rank for `STALL_S`. It is judged; if the verdict is one that time can't mend
(a rank that has left, died, raised, or waits in another collective), the cell ends there. A rank that is
only slow, stopped or computing may still come, so such a cell goes on until its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from ..diagnosis import RULES
from ..timings import LOOK_EVERY_S, POLL_S, STALL_S
from ..wire import Diagnosis, Outcome
from .transport import Pending

MAY_RESOLVE = frozenset(rule.code for rule in RULES.values() if rule.may_resolve)


class Clock:
    """The time a cell is watched by. Beats with a `clock` of their own (a scripted world's) need no real waiting."""

    def now_s(self) -> float:
        return time.monotonic()

    def pause(self, futures: Sequence[Future[Any]]) -> None:
        """Let `POLL_S` pass, or less if all of `futures` are done before."""
        wait(futures, timeout=POLL_S, return_when="ALL_COMPLETED")


@dataclass
class Watch:
    """Decides, from beats and looks, when a running cell has to end."""

    beats: Callable[[], tuple[float, ...]]
    look: Callable[[], Diagnosis]
    deadline_s: float
    last_beats: tuple[float, ...] = ()
    looked_s: float = float("-inf")
    confirmed: str = ""
    notice: Callable[[Diagnosis], None] | None = None
    may_resolve: frozenset[str] = MAY_RESOLVE

    def __post_init__(self) -> None:
        self.clock: Clock = getattr(self.beats, "clock", None) or Clock()
        self.started_s = self.moved_s = self.clock.now_s()
        self.expired = False

    def check(self, now_s: float, num_done: int) -> Diagnosis | None:
        """A diagnosis if the cell must end now, else None."""
        beats = (*self.beats(), float(num_done))
        if beats != self.last_beats:
            self.last_beats, self.moved_s, self.confirmed = beats, now_s, ""
        if now_s - self.started_s >= self.deadline_s:
            self.expired = True
            return self.look()
        if now_s - self.moved_s < STALL_S or now_s - self.looked_s < LOOK_EVERY_S * (not self.confirmed):
            return None
        self.looked_s = now_s
        diagnosis = self.look()
        verdict = diagnosis.verdict
        if verdict is None or verdict.code in self.may_resolve:
            self.confirmed = ""
            if verdict is not None and self.notice is not None:
                self.notice(diagnosis)
            return None
        if self.confirmed == verdict.code:  # the same twice, a poll apart: not a snapshot between two events
            return diagnosis
        self.confirmed = verdict.code
        return None


def run(pendings: Sequence[Pending], watch: Watch) -> Diagnosis | None:
    """Wait for every rank's answer; a diagnosis if the cell was ended before."""
    while True:
        open_ones = [pending.future for pending in pendings if not pending.done]
        if not open_ones:
            return None
        watch.clock.pause(open_ones)
        num_done = sum(pending.done for pending in pendings)
        if num_done == len(pendings):
            return None
        diagnosis = watch.check(watch.clock.now_s(), num_done)
        if diagnosis is not None:
            return diagnosis


def outcomes(pendings: Sequence[Pending], status: str = "late") -> tuple[Outcome, ...]:
    """What each rank has answered; `status` for those that have not."""
    return tuple(
        pending.future.result().outcome
        if pending.done and not pending.closed
        else Outcome(pending.rank, status, output=tuple(pending.output))
        for pending in pendings
    )


def close(pendings: Sequence[Pending]) -> None:
    """What ranks answer from now on is only the echo of an interrupt, not their outcome."""
    for pending in pendings:
        pending.closed = not pending.done
