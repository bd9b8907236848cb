"""A cell that ended badly and whose result nobody looks at: `world.run_cell(...)` as a statement shows nothing by itself.

Python knows: the instruction after such a call throws its value away. The failure is then shown at once, and once. Where the
value goes on (to a name, to a check, to the notebook's display) it is for whoever has it.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ..driver.core import WorldCore
from ..endings import declared
from ..wire import CellResult, Evidence, RecoveryReport

_LABKIT = str(Path(__file__).resolve().parent.parent)
_POP, _RETURN = dis.opmap["POP_TOP"], dis.opmap["RETURN_VALUE"]
_CALLS = ("run_cell", "try_fault")


class Unseen:
    """A listener that shows such a result; `show` puts it on the screen."""

    def __init__(self, show: Callable[[CellResult], None] = print) -> None:
        self._show = show

    def saw(self, world: WorldCore, result: CellResult | None = None, evidence: Evidence | None = None) -> None:
        """A cell has ended."""
        if result is None or result.ok or not thrown_away(sys._getframe()):
            return
        if not declared(result, [fault for fault in world.injections if fault.active]):
            self._show(result)

    def recovered(self, world: WorldCore, report: RecoveryReport) -> None:
        """Nothing to show: a recovery says itself what it did."""


def thrown_away(frame: FrameType | None) -> bool:
    """Whether the call into labkit that this frame belongs to was made by other code, which throws its value away."""
    name = ""
    while frame is not None and frame.f_code.co_filename.startswith(_LABKIT):
        name, frame = frame.f_code.co_name, frame.f_back
    if name not in _CALLS:
        return False
    while frame is not None and _next(frame) == _RETURN:
        frame = frame.f_back
    return frame is not None and _next(frame) == _POP


def _next(frame: FrameType) -> int:
    """The instruction that comes after the one that a frame is at."""
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(code) and code[at] == dis.opmap.get("CACHE", -1):
        at += 2
    return code[at] if at < len(code) else -1
