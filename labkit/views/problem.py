"""What is wrong with a schedule, in one sentence; many of a kind in few lines."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Details, Items, Node, Paragraph
from ..schedule import Problem
from ._base import add

_SHOWN = 4  # sentences that stand open; the rest can be opened


def several(problems: Sequence[Problem]) -> list[Node]:
    """One block for all of them; none for no problem."""
    if not problems:
        return []
    shown: list[Node] = [Paragraph(each.sentence, "lead", mark="✗") for each in problems[:_SHOWN]]
    left = problems[_SHOWN:]
    if left:
        shown.append(Details(f"and {len(left)} more", [Items([each.sentence for each in left])]))
    return [Block(shown, "bad")]


add(Problem, lambda problem: several([problem]))
