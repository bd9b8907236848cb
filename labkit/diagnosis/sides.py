"""What the three rules of a disagreement share: whom to blame, and the sides in words."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import join_ranks
from ..wire import Call, CallSite, Side
from . import words
from .alignment import Alignment, Disagreement
from .source import comes_later


def blame(world: Alignment, found: Disagreement) -> tuple[tuple[int, ...], str]:
    """The culprits and a hedge: the minority; where there is none, everybody, unless the source tells more."""
    if not found.tie:
        return tuple(sorted(rank for side in found.sides[1:] for rank in side)), ""
    everyone = tuple(sorted(rank for side in found.sides for rank in side))
    if found.aspect != "op" or len(everyone) != 2:
        return everyone, ""
    one, two = everyone
    sites = [found.column[rank].site for rank in everyone]
    later = comes_later(world.evidence, sites[0], sites[1], _previous_site(found, one))
    if later is None:
        return everyone, ""
    rank, site, other = (one, sites[0], sites[1]) if later else (two, sites[1], sites[0])
    assert site is not None
    assert other is not None
    if site.line < other.line:
        return (rank,), f"; rank {rank} most likely: line {other.line} was next"
    return (rank,), f"; rank {rank} most likely: line {site.line} comes after line {other.line}"


def _previous_site(found: Disagreement, rank: int) -> CallSite | None:
    before = [call for call in found.track.line(rank) if call.seq < found.seq]
    return before[-1].site if before else None


def both_sides(world: Alignment, found: Disagreement, describe: Callable[[Call], str]) -> str:
    """All sides in a row: rank 0 called this, rank 1 called that."""
    return ", ".join(
        f"{join_ranks(side)} called {describe(words.call_of(found.column, side))}"
        for side in sorted(found.sides, key=lambda side: side[0])
    )


def column_sides(world: Alignment, found: Disagreement) -> tuple[Side, ...]:
    """A side for each party."""
    return tuple(words.call_side(world, side, words.call_of(found.column, side)) for side in found.sides)


def agreed(found: Disagreement) -> tuple[str, ...]:
    """A fact: up to here all was well."""
    before = found.seq - 1
    where = f"calls up to #{before} agree" if before in found.track.columns else "it is the first call they could differ in"
    return (where,)


def lines_differ(found: Disagreement) -> tuple[str, ...]:
    """A fact: the calls come from different lines, so a call was swapped or left out before."""
    sites = {str(call.site) for call in found.column.values() if call.site is not None}
    return (f"they come from different lines: {' and '.join(sorted(sites))}",) if len(sites) > 1 else ()
