"""What is wrong with a schedule, in one sentence; many of a kind in few lines."""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule import Problem
from . import _html as h
from ._base import add

_SHOWN = 4  # sentences that stand open; the rest can be opened


def text(problem: Problem) -> str:
    return problem.sentence


def html(problem: Problem) -> str:
    return h.block(h.para(f"✗ {problem.sentence}", "lk-lead"), "bad")


def several(problems: Sequence[Problem]) -> str:
    """One block for all of them."""
    if not problems:
        return ""
    body = "".join(h.para(f"✗ {each.sentence}", "lk-lead") for each in problems[:_SHOWN])
    left = problems[_SHOWN:]
    if left:
        body += h.details(f"and {len(left)} more", h.bullets(each.sentence for each in left))
    return h.block(body, "bad")


add(Problem, text, html)
