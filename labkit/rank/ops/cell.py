"""Runs a learner's cell."""

from __future__ import annotations

from typing import Any

from ...wire import Shown
from ..cell import run_cell
from ..context import RankContext
from ..dispatch import OPS


@OPS.register("cell")
def cell(context: RankContext, *, shell: Any, buffers: list[Any], code: str, cell: int) -> Shown | None:
    """Execute `code` as cell number `cell`."""
    return run_cell(context, shell, code, cell)
