"""How ranks wait for each other's announcements in the store: interruptible, refusable, and never in a circle that torch allows.

A rank that waits long enough to matter writes down for which keys. A key ends in the rank that is to write it, so from those
notes every rank can follow who waits for whom. An asynchronous call returns in torch before the others have come: if the
ranks wait for each other in a circle, it goes on without them, and the last rank to come compares for all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..timings import GOES_ON_S
from .context import RankContext

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0001, 0.005
NOTE_AFTER_S = 0.02  # a wait this long is noted, and looked at for circles as often


class Refused(Exception):
    """The wait can't end: `reason`, and `hint` where more is known of what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class Meeting:
    """Waits for keys of one generation's store."""

    def __init__(self, context: RankContext, store: Any) -> None:
        self._context, self._store = context, store

    def wait(self, keys: Sequence[str], *, goes_on: bool = False, enough: Callable[[], bool] = lambda: False) -> bool:
        """Until all keys are there, or `enough()`; False if the caller goes on without them, as `goes_on` allows.

        Raises Refused when the driver, which sees all ranks, says that the wait can't end.
        """
        began_s, pause_s, looked_s, noted = time.monotonic(), FIRST_PAUSE_S, 0.0, False
        try:
            while not (self._store.check(list(keys)) or enough()):
                now_s = time.monotonic()
                self._refuse(began_s, now_s)
                if now_s - max(began_s, looked_s) >= NOTE_AFTER_S:
                    if not noted:
                        self._store.set(self._note(self._context.rank), json.dumps(list(keys)))
                        noted = True
                    looked_s = now_s
                    if goes_on and self._in_circle(keys):
                        return False
                time.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
            return True
        finally:
            if noted:  # written over and not deleted: a get of what is gone would wait
                self._store.set(self._note(self._context.rank), "[]")

    def _refuse(self, began_s: float, now_s: float) -> None:
        """A wait that began after the refusal is given a moment: the others may go on as well."""
        context = self._context
        reason, hint = context.refusal, context.refusal_hint
        if reason and now_s - max(began_s, context.refused_s) >= (GOES_ON_S if began_s > context.refused_s else 0.0):
            raise Refused(reason, hint)

    def _note(self, rank: int) -> str:
        """One for each thread's rank: a second thread that waits has the same name, and the last to wait is seen."""
        return f"contract/waits/{rank}"

    def _in_circle(self, keys: Sequence[str]) -> bool:
        """Whether a rank that this one waits for waits, at last, for this one."""
        me, seen, ahead = self._context.rank, set[int](), self._missing(keys)
        while ahead:
            rank = ahead.pop()
            if rank == me:
                return True
            if rank not in seen:
                seen.add(rank)
                ahead += self._missing(self._waits_of(rank))
        return False

    def _waits_of(self, rank: int) -> list[str]:
        note = self._note(rank)
        if not self._store.check([note]):
            return []
        found: list[str] = json.loads(self._store.get(note))
        return found

    def _missing(self, keys: Sequence[str]) -> list[int]:
        return [int(key.rpartition("/")[2]) for key in keys if not self._store.check([key])]
