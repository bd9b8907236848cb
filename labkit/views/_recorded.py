"""A record that was made elsewhere says so above all else."""

from __future__ import annotations

from ..schedule.records import Source
from . import _html as h


def block(body: str, source: Source | None, accent: str = "", head: str = "") -> str:
    """A section as `_html.block` makes it; for a recording its source comes first, and its bar is the waiting one."""
    if source is None:
        return h.block(body, accent, head)
    top = f'<div class="lk-head">{h.esc(head)}</div>' if head else ""
    return h.block(h.para(str(source), "lk-lead") + top + body, "wait")
