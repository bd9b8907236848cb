"""Bars and spans in HTML: a whole and its parts, a middle and its spread; numbers stand beside them as text."""

from __future__ import annotations

from collections.abc import Sequence

from . import _html as h

_WIDTH, _HEIGHT = 180, 14  # of a span


def bar(parts: Sequence[tuple[str, float]], about: str) -> str:
    """One bar, as long as its place allows: style class and amount of each part.

    >>> bar([("lk-latency", 1.0), ("lk-transfer", 3.0)], "a quarter").count("<span")
    3
    """
    whole = sum(amount for _, amount in parts) or 1.0
    drawn = "".join(f'<span class="lk-part {name}" style="width:{amount / whole:.2%}"></span>' for name, amount in parts)
    return f'<span class="lk-bar" role="img" aria-label="{h.esc(about)}" title="{h.esc(about)}">{drawn}</span>'


def key(name: str) -> str:
    """The patch of colour that stands beside a part's words."""
    return f'<span class="lk-key {name}" aria-hidden="true"></span>'


def span(low: float, middle: float, high: float, most: float, about: str) -> str:
    """A bar up to the middle with a line from low to high; `most` is the whole width."""
    at_low, at_middle, at_high = (min(value / most, 1.0) * (_WIDTH - 2) if most else 0.0 for value in (low, middle, high))
    line = _HEIGHT / 2
    return (
        f'<svg class="lk-span" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{h.esc(about)}"><title>{h.esc(about)}</title>'
        f'<rect class="lk-span-bar" x="0" y="1" width="{at_middle:.1f}" height="{_HEIGHT - 2}"/>'
        f'<path class="lk-span-line" d="M{at_low:.1f},{line:g}H{at_high:.1f}M{at_low:.1f},3v8M{at_high:.1f},3v8"/></svg>'
    )
