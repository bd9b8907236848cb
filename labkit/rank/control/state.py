"""What this rank is doing, told by its control thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from ..context import RankContext
from ..dispatch import CONTROL_OPS
from ..stacks import main_stack

LOOK_S = 0.02
PROCESS_LOOK_S = 0.03
IDLE_BELOW = 0.25  # share of a processor; a loop that polls with short sleeps stays under it


@CONTROL_OPS.register("state")
def state(context: RankContext, *, stack: bool = True) -> dict[str, Any]:
    """Stack of the main thread, the last cell's error, and whether the main thread is busy."""
    open_calls = context.tap.open_calls
    open_calls.sweep()
    busy = bool(context.main_busy_since_s)
    return {
        "blocked": context.tap.in_contract or (busy and len(open_calls) > 0 and main_thread_idle()),
        "formed": dist.is_initialized(),
        "stack": main_stack() if stack else [],
        "error": context.error,
        "busy": bool(context.main_busy_since_s),
        "cell": context.cell,
        "generation": context.generation,
        "mode": context.mode,
    }


def main_thread_idle() -> bool:
    """Whether the main thread uses (nearly) no processor time while it is looked at."""
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return _idle(lambda: time.clock_gettime(clock), LOOK_S)


@CONTROL_OPS.register("process_idle")
def process_idle() -> bool:
    """The same of the whole process: gloo moves bytes in a thread of its own."""
    return _idle(time.process_time, PROCESS_LOOK_S)


def _idle(used_s: Callable[[], float], look_s: float) -> bool:
    before_s, began_s = used_s(), time.monotonic()
    time.sleep(look_s)
    return used_s() - before_s < IDLE_BELOW * (time.monotonic() - began_s)
