"""A predicted time and what it is made of: how much is messages, how much bytes."""

from __future__ import annotations

from ..schedule import Price
from ..units import format_bytes, format_seconds
from . import _html as h
from ._bars import bar, key
from ._base import add
from ._text import count

_PARTS = (("latency", "latency_s"), ("transfer", "transfer_s"), ("reducing", "reduce_s"))


def text(price: Price) -> str:
    """The record's own text."""
    return str(price)


def _brief(seconds: float) -> str:
    """
    >>> _brief(2e-7), _brief(0.0), _brief(2e-5)
    ('under 1 µs', '0 µs', '20 µs')
    """
    return "under 1 µs" if 0 < seconds < 5e-7 else format_seconds(seconds)


def html(price: Price) -> str:
    parts = [(name, getattr(price, field)) for name, field in _PARTS]
    parts = [(name, seconds) for name, seconds in parts if seconds or name != "reducing"]
    whole = price.seconds or 1.0
    about = ", ".join(f"{seconds / whole:.0%} {name}" for name, seconds in parts)
    head = f"{price.name}, {format_bytes(price.num_bytes)} on {count(price.world_size, 'rank')}"
    said = "".join(
        f"<div>{key(f'lk-{name}')} {h.esc(_brief(seconds))} {name}, {seconds / whole:.0%}</div>" for name, seconds in parts
    )
    drawn = bar([(f"lk-{name}", seconds) for name, seconds in parts], about)
    lead = h.para(_brief(price.seconds), "lk-lead")
    return f'<div class="lk-price"><div class="lk-head">{h.esc(head)}</div>{lead}{drawn}{said}</div>'


add(Price, text, html)
