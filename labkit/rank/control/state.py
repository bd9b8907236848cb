"""What this rank is at, told by its control thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch.distributed as dist

from ..context import RankContext
from ..dispatch import CONTROL_OPS
from ..stacks import main_stack

LOOK_S = 0.02
RESTS_BELOW = 0.25  # share of a processor; a loop that polls with short sleeps stays under it


def rests() -> bool:
    """Whether the main thread uses (nearly) no processor time while it is looked at."""
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    used_s, began_s = time.clock_gettime(clock), time.monotonic()
    time.sleep(LOOK_S)
    return time.clock_gettime(clock) - used_s < RESTS_BELOW * (time.monotonic() - began_s)


@CONTROL_OPS.register("state")
def state(context: RankContext, stack: bool = True) -> dict[str, Any]:
    """Stack of the main thread, the last cell's error, and whether the main thread is busy."""
    context.tap.sweep()
    blocked = context.tap.in_contract or (bool(context.main_busy_since_s and context.tap.num_open) and rests())
    return {
        "blocked": blocked,
        "formed": dist.is_initialized(),
        "stack": main_stack() if stack else [],
        "error": context.error,
        "busy": bool(context.main_busy_since_s),
        "cell": context.cell,
        "generation": context.generation,
        "mode": context.mode,
    }
