"""Forms a generation of the process groups, changes the mode, proves that the rank is alive."""

from __future__ import annotations

import os
from typing import Any

from ..context import RankContext
from ..dispatch import OPS


@OPS.register("form")
def form(
    context: RankContext, *, shell: Any, buffers: list[Any], generation: int, host: str, port: int, timeout_s: float, mode: str
) -> dict[str, Any]:
    """Join a generation; `value` is the all-reduce of rank + 1."""
    context.mode = mode
    value = context.groups.form(generation, host, port, timeout_s)
    return {"value": value, "pid": os.getpid()}


@OPS.register("mode")
def mode(context: RankContext, *, shell: Any, buffers: list[Any], mode: str) -> None:
    """Go to "safe" or "raw" mode."""
    context.groups.set_mode(mode)


@OPS.register("ping")
def ping(context: RankContext, *, shell: Any, buffers: list[Any]) -> dict[str, Any]:
    """Who this rank is."""
    return {"rank": context.rank, "pid": os.getpid(), "device": context.device, "generation": context.generation}
