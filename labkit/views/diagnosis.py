"""The judge's answer: its verdicts, or what was looked at when there is no fault."""

from __future__ import annotations

from collections.abc import Iterable

from ..wire import Diagnosis, Evidence, RankView
from . import _html as h
from . import verdict as verdicts
from ._base import add
from ._text import count, fold, label


def _doing(view: RankView) -> str:
    if view.process in ("dead", "stopped"):
        return view.process
    if view.waiting_in is not None and view.activity == "call":
        return f"in {view.waiting_in}"
    return f"in cell {view.cell}" if view.activity in ("cell", "call") else "idle"


def looked_at(evidence: Evidence) -> str:
    """For instance "all 4 ranks idle, 12 calls looked at, none open"."""
    everyone = range(evidence.world_size)
    states = fold([(view.rank, _doing(view)) for view in evidence.ranks], key=str)
    calls = [call for view in evidence.ranks for call in view.calls]
    still_open = sum(call.state == "issued" for call in calls)
    parts = [f"{label(ranks, everyone)} {state}" for ranks, state in states]
    parts.append(f"{count(len(calls), 'call')} looked at, {still_open or 'none'} open" if calls else "no call made yet")
    return ", ".join(parts)


def _healthy(diagnosis: Diagnosis) -> str:
    return f"no fault found: {looked_at(diagnosis.evidence)}"


def _also(number: int) -> Iterable[str]:
    return [] if number < 1 else [f"And {count(number, 'more finding')}:"]


def text(diagnosis: Diagnosis) -> str:
    if diagnosis.healthy:
        return _healthy(diagnosis)
    first, *others = (verdicts.text(verdict) for verdict in diagnosis.verdicts)
    return "\n".join([first, *_also(len(others)), *others])


def html(diagnosis: Diagnosis) -> str:
    if diagnosis.healthy:
        return h.block(h.para("✓ " + _healthy(diagnosis)), "good")
    first, *others = (verdicts.verdict_block(verdict) for verdict in diagnosis.verdicts)
    return "".join([first, *(h.para(line) for line in _also(len(others))), *others])


add(Diagnosis, text, html)
