"""The judge: pure rules over evidence. They say which rank did what, where, and how to fix it.

    judge(evidence) -> verdicts, the primary one first; none on a healthy world
    contradiction(evidence) -> two open calls that can never complete, known without a stall
    whereabouts(evidence, ranks) -> where ranks are that have not answered, if no rule says why
    unfinished(evidence) -> what is not over, or did not end well, in a world without a verdict
    still_waiting(evidence) -> who is inside of a call now
    RULES           -> the rules by code; each is one file in `rules/`

No process, no clock and no torch in here: the same evidence always gives the same verdict, live, after the cell, or read
back from a recording.
"""

from __future__ import annotations

from ..vocabulary import Ending
from ..wire import Evidence, Verdict
from .align import align
from .alignment import Alignment
from .caught import with_caught
from .divergence import Contradiction, contradiction
from .makings import ended as groups_ended
from .makings import unusable as groups_unusable
from .rule import RULES, Rule
from .standing import still_waiting
from .where import unfinished, whereabouts

__all__ = [
    "RULES", "Alignment", "Contradiction", "Rule", "align", "contradiction", "groups_ended", "groups_unusable", "judge",
    "still_waiting", "unfinished", "whereabouts",
]  # fmt: skip

_LATER = (Ending.SILENT, Ending.SLOW)  # wrong numbers and lost time come after what blocks the world


def judge(evidence: Evidence) -> tuple[Verdict, ...]:
    """The verdicts on a world; several only where their causes are independent.

    >>> from labkit.wire import RankView
    >>> judge(Evidence(2, ranks=(RankView(0), RankView(1))))
    ()
    >>> judge(Evidence(2, ranks=(RankView(0), RankView(1, process="dead", exit_code=-9))))[0].code
    'LK001'
    """
    world = align(evidence)
    claims = [(rule, verdict) for rule in RULES.values() if (verdict := rule.claim(world)) is not None]
    first = min((rule.priority for rule, _ in claims if not rule.independent), default=0)
    verdicts = [with_caught(world, verdict) for rule, verdict in claims if rule.independent or rule.priority == first]
    return tuple(sorted(verdicts, key=lambda verdict: (verdict.ending in _LATER, verdict.code)))
