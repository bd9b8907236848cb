"""The rank cards: who is who, on what device, and what each one does."""

from __future__ import annotations

from ..document import Heading, Node, Pairs, Paragraph, Picture, Table, Tree, as_text
from ..units import format_bytes, format_seconds
from ..vocabulary import RankState
from ..wire import RankCard, WorldStatus
from . import _html as h
from ._base import add
from ._text import clean, count, one_line

_MARKS: dict[str, tuple[str, str]] = {
    RankState.IDLE: ("✓", "good"),
    RankState.RAISED: ("✗", "bad"),
    RankState.CUT_OFF: ("…", "wait"),
    RankState.UNREACHABLE: ("…", "wait"),
    RankState.WAITING: ("…", "wait"),
    RankState.STOPPED: ("…", "wait"),
    RankState.STUCK: ("✗", "bad"),
    RankState.DEAD: ("✗", "bad"),
}


def headline(status: WorldStatus) -> str:
    size = count(status.world_size, "rank")
    return f"{size}, {status.backend}, {status.mode} mode, generation {status.generation}, {status.launcher} launcher"


def look(card: RankCard) -> tuple[str, str]:
    """Symbol and accent of a card: never the colour alone."""
    return _MARKS.get(card.state, ("▸", "info"))


def _table(status: WorldStatus) -> Table:
    """An aligned table; host and memory are columns only where they say something."""
    cards = sorted(status.cards, key=lambda card: card.rank)
    hosts = any(card.host not in ("", "localhost") for card in cards)
    memory = any(card.memory_bytes for card in cards)
    head = ["rank", *(["host"] if hosts else []), "device", "backend", "pid", *(["memory"] if memory else []), "state", "detail"]
    rows = []
    for card in cards:
        row = [str(card.rank), *([card.host] if hosts else []), card.device, card.backend, str(card.pid or "-")]
        row += [format_bytes(card.memory_bytes) if card.memory_bytes else "-"] if memory else []
        rows.append([clean(cell) for cell in [*row, one_line(card.doing, 60), one_line(card.detail, 80)]])
    return Table(head, rows, right=(0,), words=True)


def facts(card: RankCard) -> list[tuple[str, str]]:
    """What does not change while a rank lives."""
    rows = [("device", card.device), ("backend", card.backend), ("pid", str(card.pid or "-"))]
    if card.host not in ("", "localhost"):
        rows.insert(0, ("host", card.host))
    if card.memory_bytes:
        rows.append(("memory", format_bytes(card.memory_bytes)))
    return rows


def _card(card: RankCard) -> str:
    symbol, accent = look(card)
    rank = f'<span class="lk-rank">rank {h.esc(card.rank)}</span>'
    state = f'<span class="lk-state">{symbol} {h.esc(card.doing)}</span>'
    rest: list[Node] = [Paragraph(card.detail, "detail")] if card.detail else []
    body = h.as_html([*rest, Pairs(facts(card))])
    return f'<article class="lk-card lk-{accent}"><p class="lk-lead">{rank}{state}</p>{body}</article>'


def tree(status: WorldStatus) -> Tree:
    """A headline, then a card for each rank: in a terminal a row of a table."""
    ready = f"ready in {format_seconds(status.started_in_s)}" if status.started_in_s else ""
    cards = "".join(_card(card) for card in sorted(status.cards, key=lambda card: card.rank))
    drawn = Picture(f'<div class="lk-cards">{cards}</div>', as_text([_table(status)]) if status.cards else "")
    note: list[Node] = [Paragraph(status.note, "detail")] if status.note else []
    return [Heading(headline(status), ready), drawn, *note]


add(WorldStatus, tree)
