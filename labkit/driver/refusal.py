"""Safe mode, from outside: whoever waits for what can't come is told why and raises; nobody stays stuck.

Every rank that has not answered is told, so that a wait that begins later ends as well. A rank that waits for the others'
announcements then raises by itself. One that waits inside of an issued call needs its connections cut, which breaks the
groups; so that is done only to ranks that are seen waiting after they were told. A rank that is at work is left alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from ..diagnosis import still_waiting, words
from ..places import cell_name
from ..timings import ANSWER_S, REFUSE_MOST_S, REFUSE_S, STALL_S
from ..vocabulary import ProcessState
from ..wire import Diagnosis, Evidence
from .transport import Pending, errors_of, value_of

if TYPE_CHECKING:
    from .ranks import Ranks


class Refusal:
    """One cell's refusal: whom to tell, what, and for how long. `stuck` are the ranks that nothing freed."""

    def __init__(self, core: Ranks, pendings: Sequence[Pending], limit_s: float, *, expired: bool) -> None:
        self._core, self._pendings, self._limit_s, self._expired = core, pendings, limit_s, expired
        self._told = self._cut = frozenset[int]()
        self.stuck: tuple[int, ...] = ()

    def perform(self, diagnosis: Diagnosis) -> Diagnosis:
        """Free whoever waits; the diagnosis to show: the one that was refused for, as it looks afterwards."""
        end_s = time.monotonic() + REFUSE_MOST_S
        found, seen = diagnosis, False
        while (waiting := self._waiting(found.evidence)) and time.monotonic() < end_s:
            self._tell(diagnosis)
            if seen:
                self._end_waits(waiting)
            wait([pending.future for pending in waiting.values()], timeout=REFUSE_S)
            found, seen = self._core.diagnose(), True
        self.stuck = tuple(waiting)
        if not self._expired and not waiting:  # the rest is at work, and what it makes now is refused as well
            wait([pending.future for pending in self._pendings], timeout=max(0.0, end_s - time.monotonic()))
        if quiet := self._quiet(found.evidence):
            self._tell(diagnosis)
            self._end_waits(quiet)  # it may be a wait that no beacon shows
            wait([pending.future for pending in quiet.values()], timeout=REFUSE_S if self._cut & set(quiet) else 0.0)
            found = self._core.diagnose()
        before, after = diagnosis.verdict, found.verdict
        return found if before is not None and after is not None and after.code == before.code else diagnosis

    def _waiting(self, evidence: Evidence) -> dict[int, Pending]:
        """Those who have not answered and have waited so long that nobody is just on the way."""
        long = {rank for rank, call in still_waiting(evidence).items() if evidence.taken_s - call.issued_s >= STALL_S}
        return {pending.rank: pending for pending in self._pendings if not pending.done and pending.rank in long}

    def _quiet(self, evidence: Evidence) -> dict[int, Pending]:
        """Those who have not answered and have neither begun nor ended a call for a while."""
        moved_s = {view.rank: view.last_progress_s for view in evidence.ranks if view.process == ProcessState.RUNNING}
        quiet = {rank for rank, at_s in moved_s.items() if evidence.taken_s - at_s >= STALL_S}
        return {pending.rank: pending for pending in self._pendings if not pending.done and pending.rank in quiet}

    def _tell(self, diagnosis: Diagnosis) -> None:
        """Everybody who has not answered: a wait that begins later is refused for the same reason."""
        running = {view.rank for view in diagnosis.evidence.ranks if view.process == ProcessState.RUNNING}
        ranks = [p.rank for p in self._pendings if not p.done and p.rank in running - self._told]
        self._told |= frozenset(ranks)
        reason, hint = self._why(diagnosis)
        self._ask("refuse", ranks, reason=reason, hint=hint)

    def _why(self, diagnosis: Diagnosis) -> tuple[str, str]:
        """The reason, and what to do where a rank is still at work."""
        verdict, evidence = diagnosis.verdict, diagnosis.evidence
        waiting = self._waiting(evidence)
        at_work = [p.rank for p in self._pendings if not p.done and p.rank not in waiting]
        reason = verdict.sentence.rstrip(".") if verdict is not None else f"its cell has had its {self._limit_s:g} s"
        if not at_work:
            return reason, ""
        return reason, f"no rank has issued this call; {words.still_at_work(evidence, at_work)}"

    def _end_waits(self, ranks: Iterable[int]) -> None:
        """Each of these ranks looks whether it rests in a call of torch's; if so, its connections are cut."""
        answers = self._ask("end_wait", [rank for rank in ranks if rank not in self._cut])
        self._cut |= {rank for rank, answer in answers.items() if answer.get("cut")}
        if self._cut:
            self._core.broken = self._core.broken or f"since {cell_name(self._core.cell)}"

    def _ask(self, op: str, ranks: Sequence[int], **payload: Any) -> dict[int, dict[str, Any]]:
        payload["request_id"] = self._core.request_id
        asked = {rank: self._core.cluster.transport.control(rank, op, payload) for rank in ranks}
        wait(asked.values(), timeout=ANSWER_S)
        for error in errors_of(asked).values():
            warnings.warn(f"a waiting rank could not be told to give up: {error.what}", stacklevel=2)
        return {rank: value_of(future) or {} for rank, future in asked.items()}
