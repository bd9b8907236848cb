"""Where two ranks part: the frame at which their ways to a call differ, and who of the two has gone ahead.

At one number two ranks are at calls from other places. Who is ahead has left out what the other is about to call. That is told
by the history (in the passes before, one call came so many times before the other), else by the order of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..calls import Key, parting, place, site_key
from ..phrases import code_lines
from ..wire import Call, CallSite, Evidence
from .shifts import Unlike
from .source import block, comes_later, exclusive, passable, text_of


@dataclass(frozen=True)
class Parting:
    """`ahead` and `behind` are calls at one number; their ways are the same up to `frames`, of which `ahead`'s comes first.

    `count`: how often `behind` was left out. `sure`: the source lets a pass miss one of the two calls, or the passes before
    tell; else the two calls may as well have changed places.
    """

    ahead: Call
    behind: Call
    frames: tuple[CallSite, ...]
    count: int
    sure: bool


def part(evidence: Evidence, one: Call, two: Call, before: Sequence[Call]) -> Parting | None:
    """How two calls of one number came apart after the calls `before`; None if they are of one place, or of a branch."""
    mine, theirs = site_key(one), site_key(two)
    if mine is None or theirs is None or mine == theirs:
        return None
    frames = parting((one.path, two.path))
    if frames and branches(evidence, *frames):
        return None
    keys = [site_key(call) for call in before]
    missed_two, missed_one = _missed(keys, theirs, mine), _missed(keys, mine, theirs)
    if bool(missed_two) != bool(missed_one):
        ahead, behind = (one, two) if missed_two else (two, one)
        ordered = frames if missed_two else frames[::-1]
        return Parting(ahead, behind, ordered, missed_two or missed_one, sure=True)
    if not frames:
        return None
    later = comes_later(evidence, frames[0], frames[1], same_pass(frames[0], one, before))
    if later is None:
        return None
    ahead, behind, ordered = (one, two, frames) if later else (two, one, frames[::-1])
    depth = ahead.path.index(ordered[0])
    return Parting(ahead, behind, ordered, 1, any(passable(evidence, frame) for frame in behind.path[depth:]))


def _missed(keys: Sequence[Key | None], wanted: Key, ahead: Key) -> int:
    """How many calls of `wanted` came before `ahead` in every pass so far, and have not come in this one.

    A pass ends with `ahead`, which may be called several times in a row; the first pass may have begun in its middle.
    """
    counts: list[int] = []
    count = row = longest = 0
    for key in keys:
        if key == ahead:
            if not row:
                counts.append(count)
                count = 0
            row += 1
        else:
            longest, row = max(longest, row), 0
            count += key == wanted
    if not counts or (row and not (longest and row >= longest)):
        return 0  # `ahead` was never called, or may be called once more in this pass
    return max(0, min(counts[1:] or counts) - count)


def same_pass(frame: CallSite, call: Call, before: Sequence[Call]) -> CallSite | None:
    """The line that the last call before came from, in the same pass through the same function."""
    depth = call.path.index(frame)
    last = before[-1].path if before else ()
    outside = [place(site) for site in call.path[:depth]]
    if len(last) <= depth or [place(site) for site in last[:depth]] != outside:
        return None
    return last[depth] if last[depth].function == frame.function else None


def branches(evidence: Evidence, one: CallSite, two: CallSite) -> bool:
    """The two lines are in different arms of one `if`."""
    text = text_of(evidence, one)
    return bool(exclusive(block(text, one.line) or (), block(text, two.line) or ()))


def unlike(evidence: Evidence, sites: dict[Key, Call]) -> Unlike:
    """How unlike two places are, by the source; `sites` has a call for each place."""
    known: dict[tuple[Key, Key], float] = {}

    def compare(one: Key, two: Key) -> float:
        if (one, two) not in known:
            known[one, two] = 0.0 if one == two else _unlike(evidence, sites[one], sites[two])
        return known[one, two]

    return compare


def _dispatch(one: Call, two: Call) -> CallSite | None:
    """The line that called one function on the way to `one`, and another on the way to `two`."""
    at = next((at for at, pair in enumerate(zip(one.path, two.path, strict=False)) if place(pair[0]) != place(pair[1])), 0)
    return one.path[at - 1] if at else None


_BRANCH = 0.4  # two arms of one `if` that does not ask for the rank


def _unlike(evidence: Evidence, one: Call, two: Call) -> float:
    frames = parting((one.path, two.path))
    if one.op != two.op:
        return 1.0
    if not frames:
        return 0.0 if "rank" in evidence.source_line(_dispatch(one, two)) else 1.0
    if not branches(evidence, *frames):
        return 1.0
    text = text_of(evidence, frames[0])
    line = exclusive(block(text, frames[0].line) or (), block(text, frames[1].line) or ())
    return 0.0 if "rank" in code_lines(text)[line - 1] else _BRANCH
