"""Calls that were matched though they are of different lines, in a cell that ended well.

Two lines that meet are no proof: two arms of an `if` are meant to. What proves a slip is that a rank's calls are the others'
calls, moved by one, to the end of what they have in common, and that everybody comes to the line that was left out, or made
once more, at other times as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..calls import parting
from ..notes import Finding
from ..vocabulary import CallState
from ..wire import Call, CallSite, Evidence
from .parting import branches

Path = tuple[CallSite, ...]
LEAST = 3  # calls in a row that are moved


def matched_with_others(evidence: Evidence) -> dict[int, Finding]:
    """By rank, what it has left out or made once more in the newest cell; {} if every rank's calls are where they belong."""
    found: dict[int, Finding] = {}
    for lines in _by_group(evidence).values():
        paths = {rank: tuple(call.path for call in line) for rank, line in lines.items()}
        common, times = Counter(paths.values()).most_common(1)[0]
        if times == len(paths):
            continue
        others = [rank for rank, path in paths.items() if path == common]
        for rank in sorted(set(paths) - set(others) - set(found)):
            if (told := _moved(evidence, lines[rank], lines[others[0]], others)) is not None:
                found[rank] = told
    return found


def _by_group(evidence: Evidence) -> dict[str, dict[int, list[Call]]]:
    """The newest cell's collectives by group and rank, of groups in which all of them returned and carry the same numbers."""
    groups: dict[str, dict[int, list[Call]]] = {}
    for view in evidence.ranks:
        for call in view.calls:
            if call.cell == evidence.cell and call.seq and not call.p2p and not call.algorithm and call.path and not call.part:
                groups.setdefault(call.group, {}).setdefault(view.rank, []).append(call)
    return {
        name: lines
        for name, lines in groups.items()
        if len(lines) > 1
        and len({tuple(call.seq for call in line) for line in lines.values()}) == 1
        and all(call.state == CallState.DONE for line in lines.values() for call in line)
    }


def _moved(evidence: Evidence, mine: Sequence[Call], theirs: Sequence[Call], others: list[int]) -> Finding | None:
    own, common = [call.path for call in mine], [call.path for call in theirs]
    at = next(number for number, (one, two) in enumerate(zip(own, common, strict=True)) if one != two)
    frames = parting((own[at], common[at]))
    if at == 0 or not frames or branches(evidence, *frames):
        return None
    for kind, shorter, longer, line in (("skip", own, common, common[at]), ("extra", common, own, own[at])):
        both = zip(shorter[at:], longer[at + 1 :], strict=False)
        same = next((number for number, (one, two) in enumerate(both) if one != two), len(own) - at - 1)
        ends = len(own) - at - same == 1  # a call of its own at the end has made the numbers even
        elsewhere = all(any(path[-1] == line[-1] for path in paths[:at] + paths[at + 1 :]) for paths in (own, common))
        if same >= LEAST and ends and elsewhere:
            site = line[-1]
            facts = {"kind": kind, "seq": mine[at].seq, "mine": str(own[at][-1]), "theirs": str(common[at][-1]), "others": others}
            return Finding("other-lines", mine[at].op, str(site), evidence.source_line(site), same, facts)
    return None
