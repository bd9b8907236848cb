"""Lets a rank that is at work come to rest: its code is interrupted, and a call that is under way comes to its end first."""

from __future__ import annotations

import os
import signal
import time

from ..context import RankContext
from ..dispatch import CONTROL_OPS
from .state import RESTS_BELOW

LOOK_S = 0.03


@CONTROL_OPS.register("halt")
def halt(context: RankContext) -> bool:
    """Interrupt the main thread and leave the connections; False if it is not busy."""
    busy = bool(context.main_busy_since_s)
    if busy:
        os.kill(os.getpid(), signal.SIGINT)
    return busy


@CONTROL_OPS.register("rests")
def rests(context: RankContext) -> bool:
    """Whether this process uses (nearly) no processor time, all its threads together: gloo moves bytes in one of its own."""
    used_s, began_s = time.process_time(), time.monotonic()
    time.sleep(LOOK_S)
    return time.process_time() - used_s < RESTS_BELOW * (time.monotonic() - began_s)
