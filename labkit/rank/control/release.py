"""Ends what the main thread is in: it interrupts Python code and frees a wait inside of a collective; every variable is kept."""

from __future__ import annotations

import os
import signal
import time

from ..context import RankContext
from ..dispatch import CONTROL_OPS

GRACE_S = 0.05  # a wait that was cut raises by itself within this time
POLL_S = 0.002


@CONTROL_OPS.register("release")
def release(context: RankContext, *, reason: str = "", interrupt: bool = True) -> dict[str, int]:
    """Cut the groups' connections and interrupt the main thread if it is busy; how many connections were cut.

    `reason` is what a wait of safe mode raises with.
    """
    context.refusal = reason or "the cell was ended"
    busy_since_s = context.main_busy_since_s
    cut = context.backend.release((lambda: interrupt_main(context)) if interrupt else (lambda: False))
    # a wait that has just been cut raises by itself, and an interrupt on top would hide its message
    if interrupt and _still_busy(context, busy_since_s):
        interrupt_main(context)
    return {"cut": cut}


def _still_busy(context: RankContext, since_s: float) -> bool:
    """Whether the main thread is in the same request after the time that a cut wait gets."""
    end_s = time.monotonic() + GRACE_S
    while since_s and context.main_busy_since_s == since_s:
        if time.monotonic() >= end_s:
            return True
        time.sleep(POLL_S)
    return False


@CONTROL_OPS.register("refuse")
def refuse(context: RankContext, *, reason: str, request_id: int) -> None:
    """Safe mode: whoever waits, in request `request_id`, for a member that will not come raises and says why."""
    if context.request_id == request_id:
        context.refusal = reason


@CONTROL_OPS.register("interrupt_main")
def interrupt_main(context: RankContext) -> bool:
    """Interrupt the main thread and leave the connections; False if it is not busy."""
    busy = bool(context.main_busy_since_s)
    if busy:
        os.kill(os.getpid(), signal.SIGINT)
    return busy
