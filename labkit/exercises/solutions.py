"""A lab is kept once, with its solutions; this takes them out for learners.

A solution stands between two marks, and what stands outside of them stays:

    ### BEGIN SOLUTION
    answer = 42
    ### END SOLUTION

In its place comes a line that says whose turn it is, and a cell that is run with it ends in one line that says so too.
"""

from __future__ import annotations

from typing import Any

from ..errors import UsageError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "raise labkit.errors.YourTurn  # your turn: write your lines here, in place of this one"
GUESS = "guess = ...  # your turn: put your guess in place of the dots"
RANK_STUB = 'raise NotImplementedError("your turn")'  # ranks know torch, and no labkit


def without_solutions(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy of a notebook (as JSON) with a stub in place of each solution."""
    return {**notebook, "cells": [_learners(cell) for cell in notebook["cells"]]}


def has_solution(cell: dict[str, Any]) -> bool:
    """Whether a cell has something to be solved."""
    return cell["cell_type"] == "code" and BEGIN in source_of(cell)


def source_of(cell: dict[str, Any]) -> str:
    """A cell's text, which notebooks keep as one string or as lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _learners(cell: dict[str, Any]) -> dict[str, Any]:
    if cell["cell_type"] == "code":
        cell = {**cell, "outputs": [], "execution_count": None}  # somebody's run would give the answers away
    if not has_solution(cell):
        return cell
    return {**cell, "source": strip(source_of(cell)).splitlines(keepends=True)}


def strip(source: str) -> str:
    """A cell's source with stubs; UsageError for a mark without its partner.

    >>> print(strip("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n    ### END SOLUTION\\nf()"))
    def f():
        raise labkit.errors.YourTurn  # your turn: write your lines here, in place of this one
    f()
    """
    kept: list[str] = []
    solution: list[str] | None = None
    for line in source.splitlines():
        mark = line.strip()
        if mark in (BEGIN, END):
            if (solution is None) == (mark == END):
                raise UsageError(f"{mark!r} without its partner", hint="each solution has one beginning and one end")
            if solution is not None:
                kept.append(line[: len(line) - len(line.lstrip())] + _stub(solution, kept))
            solution = [] if mark == BEGIN else None
        elif solution is None:
            kept.append(line)
        else:
            solution.append(mark)
    if solution is not None:
        raise UsageError(f"{BEGIN!r} without its partner", hint=f"close it with {END!r}")
    return "\n".join(kept)


def _stub(solution: list[str], before: list[str]) -> str:
    """What stands in a solution's place: dots for a guess; on ranks, or in a text for them, nothing of labkit's."""
    above = "\n".join(before)
    if above.startswith("%%ranks") or above.count('"""') % 2:
        return RANK_STUB
    lines = [line for line in solution if line]
    return GUESS if len(lines) == 1 and lines[0].startswith("guess = ") else STUB
