"""A ring as a circle and a tree from its root down: ranks in the colour of their host, dashed where a host is left."""

from __future__ import annotations

import math

from ..schedule.nccl_log import NcclLog, NcclRing
from . import _html as h
from ._marks import MARKS, Mark

MOST_RANKS = 64
_PLAIN = Mark("#888888", "", "#000000")  # a rank whose host the log does not name
_LEVEL, _COLUMN, _MARGIN = 42, 44, 18


def ring_picture(log: NcclLog, ring: NcclRing) -> str:
    """The ring as a circle, clockwise from its first rank; a ring that is cut stays open."""
    num = len(ring.ranks) + ring.cut
    radius = max(66.0, num * 36 / (2 * math.pi))
    middle = radius + _MARGIN
    angles = [2 * math.pi * place / num - math.pi / 2 for place in range(num)]
    spots = [(middle + radius * math.cos(angle), middle + radius * math.sin(angle)) for angle in angles]
    parts = []
    for place, rank in enumerate(ring.ranks):
        if ring.cut and place == len(ring.ranks) - 1:
            break
        after = ring.ranks[(place + 1) % len(ring.ranks)]
        parts.append(_edge(log, rank, after, spots[place], spots[(place + 1) % len(ring.ranks)]))
    parts += [_node(log, rank, *spots[place]) for place, rank in enumerate(ring.ranks)]
    if ring.cut:
        parts.append(f'<text x="{spots[-1][0]:.1f}" y="{spots[-1][1] + 4:.1f}" text-anchor="middle">…</text>')
    order = ", ".join(map(str, ring.ranks))
    return _svg(parts, 2 * middle, 2 * middle, f"ring of channel {ring.channel}: {order}{', and more' if ring.cut else ''}")


def tree_picture(log: NcclLog, channel: int) -> str:
    """The tree of a channel, as far as the log shows it."""
    children = _children(log, channel)
    below = {child for found in children.values() for child in found}
    tops = [rank for rank in sorted(children) if rank not in below] or sorted(children)[:1]
    spots: dict[int, tuple[float, float]] = {}
    width = 0.0
    for top in tops:
        width = _place(top, children, spots, width, 0)
    parts = [_edge(log, rank, child, spots[rank], spots[child]) for rank in spots for child in children[rank] if child in spots]
    parts += [_node(log, rank, *spot) for rank, spot in spots.items()]
    height = max(y for _, y in spots.values()) + _MARGIN
    lines = "; ".join(f"{rank} to {', '.join(map(str, found))}" for rank, found in children.items() if found)
    return _svg(parts, width, height, f"tree of channel {channel}, root {', '.join(map(str, tops))}: {lines}")


def _children(log: NcclLog, channel: int) -> dict[int, list[int]]:
    """By rank, whom the log has below it: told by the rank itself, or by the one below."""
    found: dict[int, list[int]] = {}
    for rank, place in log.tree(channel).items():
        for above, below in [
            *((rank, child) for child in place.children),
            *([(place.parent, rank)] if place.parent is not None else []),
        ]:
            found.setdefault(below, [])
            if below not in found.setdefault(above, []):
                found[above].append(below)
        found.setdefault(rank, [])
    return found


def _place(rank: int, children: dict[int, list[int]], spots: dict[int, tuple[float, float]], left: float, depth: int) -> float:
    """Give a rank and all below it their spots, from `left` on; the right end of what they take."""
    spots[rank] = (left, 0.0)  # so that a damaged log, where somebody is above itself, comes to an end
    right = left
    for child in children[rank]:
        if child not in spots:
            right = _place(child, children, spots, right, depth + 1)
    right = max(right, left + _COLUMN)
    spots[rank] = ((left + right) / 2, _MARGIN + depth * _LEVEL)
    return right


def _host(log: NcclLog, rank: int) -> tuple[str, Mark]:
    number = log.host_of(rank)
    return ("host not known", _PLAIN) if number is None else (f"host {number}", MARKS[number % len(MARKS)])


def _node(log: NcclLog, rank: int, x: float, y: float) -> str:
    host, mark = _host(log, rank)
    return (
        f'<g><title>{h.esc(f"rank {rank}, {host}")}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="11" fill="{mark.color}"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="{mark.ink}">{rank}</text></g>'
    )


def _edge(log: NcclLog, source: int, target: int, start: tuple[float, float], end: tuple[float, float]) -> str:
    """A line with an arrow; dashed and thicker from host to host."""
    (x0, y0), (x1, y1) = start, end
    hosts = log.host_of(source), log.host_of(target)
    across = None not in hosts and hosts[0] != hosts[1]
    dash = ' stroke-width="2.5" stroke-dasharray="5 3"' if across else ' stroke-opacity="0.6"'
    via = next((link.transport for link in log.links if {link.source, link.target} == {source, target}), "")
    about = h.esc(f"{source} to {target}{', between hosts' if across else ''}{f', {via}' if via else ''}")
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    tip = f"translate({x0 + 0.56 * (x1 - x0):.1f} {y0 + 0.56 * (y1 - y0):.1f}) rotate({angle:.0f})"
    return (
        f'<g><title>{about}</title><line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="currentColor"{dash}/>'
        f'<path d="M-4,-4L4,0L-4,4Z" transform="{tip}"/></g>'
    )


def legend(log: NcclLog) -> str:
    """Which colour is which host."""
    if len(log.hosts) < 2:
        return ""
    marks = [_host(log, ranks[0]) for ranks in log.hosts]
    spots = " ".join(
        f'<span style="background:{mark.color};color:{mark.ink};padding:0 7px;border-radius:9px">{h.esc(host)}</span>'
        for host, mark in marks
    )
    return f"<p>{spots} dashed: from host to host</p>"


def _svg(parts: list[str], width: float, height: float, label: str) -> str:
    style = f"display:block;width:{width:.0f}px;max-width:100%;height:auto"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{h.esc(label)}" '
        f'fill="currentColor" font-size="11" style="{style}">{"".join(parts)}</svg>'
    )
