"""What this rank is at, told by its control thread."""

from __future__ import annotations

from typing import Any

from ..context import RankContext
from ..dispatch import CONTROL_OPS
from ..stacks import main_stack


@CONTROL_OPS.register("state")
def state(context: RankContext, stack: bool = True) -> dict[str, Any]:
    """Stack of the main thread, the last cell's error, and whether the main thread is busy."""
    context.tap.sweep()
    return {
        "stack": main_stack() if stack else [],
        "error": context.error,
        "busy": bool(context.main_busy_since_s),
        "cell": context.cell,
        "generation": context.generation,
        "mode": context.mode,
    }
