"""A rank's card: what it is at, in a short phrase."""

from __future__ import annotations

import time

from ..processes import memory_bytes
from ..wire import RankCard, RankView
from .core import Seat


def make_card(view: RankView, seat: Seat, backend: str) -> RankCard:
    """The card of a rank as it was seen."""
    state, detail = describe(view)
    memory = memory_bytes(view.pid)
    return RankCard(view.rank, view.pid, seat.device, backend, state, detail, host=seat.host, memory_bytes=memory)


def describe(view: RankView) -> tuple[str, str]:
    """A rank's state as a short phrase, and where."""
    if view.process == "dead":
        return "dead", f"exit code {view.exit_code}"
    if view.process == "stopped":
        return "stopped", "SIGSTOP"
    waiting = view.waiting_in
    if waiting is not None and view.activity != "idle":
        waited = time.monotonic() - waiting.issued_s
        return f"in {waiting}", f"{waiting.site}, for {waited:.1f} s" if waiting.site else f"for {waited:.1f} s"
    if view.activity == "cell":
        return f"running cell {view.cell}", str(view.line or "") if view.answers else "holds the interpreter lock"
    return "idle", f"last cell raised {view.error.type}" if view.error else ""
