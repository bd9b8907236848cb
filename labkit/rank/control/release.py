"""Frees the main thread: hangs up on gloo's waits and interrupts Python code; every variable survives."""

from __future__ import annotations

import os
import signal
import threading

from ..context import RankContext
from ..dispatch import CONTROL_OPS
from ..nccl import abort_groups


@CONTROL_OPS.register("release")
def release(context: RankContext, reason: str = "", interrupt: bool = True) -> dict[str, int]:
    """Cut the groups' connections and send SIGINT to the main thread, if it is busy.

    `reason` is what a wait of safe mode raises with. Returns how many connections were cut.
    """
    context.refusal = reason or "the cell was ended"
    cut = context.groups.sockets.cut() if context.backend == "gloo" else _abort_nccl(context, interrupt)
    context.cut_count += cut
    # a wait that has just been cut raises by itself, and an interrupt on top would hide its message
    if interrupt and context.main_busy_since_s:
        threading.Timer(0.05, _interrupt_if_busy, (context, context.main_busy_since_s)).start()
    return {"cut": cut}


@CONTROL_OPS.register("refuse")
def refuse(context: RankContext, reason: str, turn: int) -> None:
    """Safe mode: whoever waits, in request `turn`, for a member that will not come raises and says why."""
    if context.turn == turn:
        context.refusal = reason


def _interrupt_if_busy(context: RankContext, since_s: float) -> None:
    if context.main_busy_since_s == since_s:
        os.kill(os.getpid(), signal.SIGINT)


def _abort_nccl(context: RankContext, interrupt: bool) -> int:
    """Abort NCCL's communicators, so that the kernels on the GPU and the waits for them end.

    A wait that is ended so returns as if all were well, with numbers that mean nothing. So the interrupt is
    sent first: it is pending when the main thread comes back from the wait, and no line of the cell runs.
    """
    if interrupt:
        _interrupt_if_busy(context, context.main_busy_since_s or -1.0)
    return abort_groups()
