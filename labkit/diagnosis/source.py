"""What the source of a cell says about order: which of two ranks is more likely wrong where no majority decides.

A rank cell runs from top to bottom on every rank, so of two lines in the same block the later one was reached too early. A
line under an `if`, in a function or in a loop tells nothing, and then nothing is said.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from ..wire import CallSite, Evidence

Block = tuple[tuple[int, str], ...]  # the statements around a line, outermost first: (line, arm)
LOOPS = ("For.", "While.", "AsyncFor.")


@lru_cache(maxsize=64)
def _tree(source: str) -> ast.Module | None:
    plain = [_without_magic(line) for line in source.splitlines()]
    try:
        return ast.parse("\n".join(plain))
    except (SyntaxError, ValueError):
        return None


def _without_magic(line: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)] + "pass" if bare.startswith(("%", "!")) else line


def block(source: str, line: int) -> Block | None:
    """The compound statements around a line; () at the top level, None if the source can't be read.

    >>> block("if rank == 0:\\n    f()\\ng()", 2), block("if rank == 0:\\n    f()\\ng()", 3)
    (((1, 'If.body'),), ())
    """
    tree = _tree(source)
    if tree is None or not source:
        return None
    around: list[tuple[int, str]] = []
    body: list[ast.stmt] | None = tree.body
    while body is not None:
        body = _inner(body, line, around)
    return tuple(around)


def _inner(body: list[ast.stmt], line: int, around: list[tuple[int, str]]) -> list[ast.stmt] | None:
    for statement in body:
        if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            continue
        for arm in ("body", "orelse", "finalbody"):
            inside = getattr(statement, arm, None)
            if isinstance(inside, list) and inside and inside[0].lineno <= line <= (inside[-1].end_lineno or 0):
                if not isinstance(statement, (ast.With, ast.AsyncWith)):
                    around.append((statement.lineno, f"{type(statement).__name__}.{arm}"))
                return inside
    return None


def _block_of(evidence: Evidence, site: CallSite | None) -> Block | None:
    if site is None or site.cell is None:
        return None
    return block(evidence.sources.get(str(site.cell), ""), site.line)


def unconditional(evidence: Evidence, site: CallSite | None) -> bool:
    """Every rank that runs this cell to its end passes this line once."""
    return _block_of(evidence, site) == ()


def in_loop(evidence: Evidence, site: CallSite | None) -> bool:
    """The line may run more than once (or that can't be told)."""
    around = _block_of(evidence, site)
    return around is None or any(arm.startswith((*LOOPS, "FunctionDef")) for _, arm in around)


def comes_later(evidence: Evidence, one: CallSite | None, two: CallSite | None, previous: CallSite | None) -> bool | None:
    """Whether `one` comes after `two` when the cell is read on from `previous`; None if the source can't tell.

    >>> e = Evidence(2, sources={"1": "a()\\nb()"})
    >>> comes_later(e, CallSite("cell 1", 2), CallSite("cell 1", 1), None)
    True
    """
    if one is None or two is None or one.file != two.file or one.line == two.line:
        return None
    around = _block_of(evidence, one)
    if around is None or around != _block_of(evidence, two) or any(arm.startswith("FunctionDef") for _, arm in around):
        return None
    passed = previous.line if previous is not None and previous.file == one.file else 0
    return (one.line <= passed, one.line) > (two.line <= passed, two.line)  # in a loop the lines before come next
