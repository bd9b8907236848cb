"""One rank cell from send to end: waits, looks for stalls, and stops at a deadline or at a certain verdict.

Two ranks that wait in calls which can never complete together are found by their beacons alone. For everything else
there must be a stall: no progress on any rank for `STALL_S`. It is judged; if the verdict is one that time can't mend
(a rank that has left, died or raised), the cell ends there. A rank that is only slow, stopped or computing may still
come, so such a cell goes on until its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from ..diagnosis import RULES, Contradiction, contradiction, still_waiting
from ..timings import ANSWER_S, ARRIVAL_S, GLANCE_REST, LOOK_EVERY_S, POLL_S, REACH_EVERY_S, STALL_S
from ..vocabulary import Activity, CallState
from ..wire import Diagnosis, Evidence, Outcome
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
    glance: Callable[[], Evidence] | None = None  # the newest calls, cheaply; None where a mismatch is refused anyway
    reachable: Callable[[], None] = lambda: None  # raises if no answer can come any more
    waited: Callable[[Evidence], None] = lambda evidence: None  # hears of a look at a wait that may still end

    def __post_init__(self) -> None:
        self.suspected: tuple[Contradiction, float] | None = None
        self.examined: tuple[tuple[int, float], ...] = ()
        self.reached_s = self.glance_again_s = float("-inf")
        self.clock: Clock = getattr(self.beats, "clock", None) or Clock()
        self.started_s = self.moved_s = self.clock.now_s()
        self.expired = False

    def check(self, now_s: float, num_done: int) -> Diagnosis | None:
        """A diagnosis if the cell must end now, else None."""
        beats = (*self.beats(), float(num_done))
        pairs = zip(beats[:-1], self.last_beats, strict=False)
        still = tuple((rank, beat) for rank, (beat, last) in enumerate(pairs) if beat == last)
        if beats != self.last_beats:
            self.last_beats, self.moved_s, self.confirmed = beats, now_s, ""
        if now_s - self.reached_s >= REACH_EVERY_S:
            self.reached_s = now_s
            self.reachable()
        if now_s - self.started_s >= self.deadline_s:
            self.expired = True
            return self.look()
        if self.glance is not None and len(still) > 1:
            return self._contradicted(still, now_s) or self._stalled(now_s)
        return self._stalled(now_s)

    def _contradicted(self, still: tuple[tuple[int, float], ...], now_s: float) -> Diagnosis | None:
        """A diagnosis if ranks that have not moved since the last poll wait in calls that can never complete.

        It must be seen twice. Who is wrong is clearer with all members, so those that are on their way get a moment.
        """
        if self.glance is None or still == self.examined or now_s < self.glance_again_s:
            return None
        found = contradiction(self.glance())
        seen_s = self.clock.now_s()
        self.glance_again_s = seen_s + GLANCE_REST * (seen_s - now_s)
        before, self.suspected = self.suspected, None
        if found is None:
            self.examined = still
            return None
        known = before is not None and (before[0].group, before[0].seq) == (found.group, found.seq)
        since_s = before[1] if before is not None and known else now_s
        self.suspected = (found, since_s)
        if not known or (found.missing and now_s - since_s < ARRIVAL_S):
            return None
        diagnosis = self.look()
        certain = diagnosis.verdict is not None and diagnosis.verdict.code not in self.may_resolve
        if certain and contradiction(diagnosis.evidence) is not None:
            return diagnosis
        self.examined = still
        return None

    def _stalled(self, now_s: float) -> Diagnosis | None:
        """A diagnosis if no rank moves, and twice the same is found that time can't mend."""
        if now_s - self.moved_s < STALL_S or now_s - self.looked_s < LOOK_EVERY_S * (not self.confirmed):
            return None
        self.looked_s = now_s
        diagnosis = self.look()
        verdict = diagnosis.verdict
        if verdict is None or verdict.code in self.may_resolve or _goes_on(diagnosis.evidence):
            self.confirmed = ""
            if verdict is not None:
                self.waited(diagnosis.evidence)
            if verdict is not None and self.notice is not None:
                self.notice(diagnosis)
            return None
        if self.confirmed == verdict.code:  # the same twice, a poll apart: not a snapshot between two events
            return diagnosis
        self.confirmed = verdict.code
        return None


def _goes_on(evidence: Evidence) -> bool:
    """Code has caught the error of safe mode and works on: nobody waits for anybody."""
    calls = [call for view in evidence.ranks for call in view.calls if call.cell == evidence.cell]
    return any(call.state == CallState.REFUSED for call in calls) and not still_waiting(evidence)


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


def await_ended(pendings: Sequence[Pending], diagnosis: Diagnosis | None) -> None:
    """The ranks that were seen to have ended the cell are answering: give them a moment."""
    ended = {view.rank for view in diagnosis.evidence.ranks if view.activity == Activity.IDLE} if diagnosis is not None else set()
    open_ones = [pending.future for pending in pendings if pending.rank in ended and not pending.done]
    if open_ones:
        wait(open_ones, timeout=ANSWER_S)


def close(pendings: Sequence[Pending]) -> None:
    """What ranks answer from now on is only the echo of an interrupt, not their outcome."""
    for pending in pendings:
        pending.closed = not pending.done
