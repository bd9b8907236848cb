"""What the source of a cell says about order: which of two ranks is more likely wrong where no majority decides.

A rank cell runs from top to bottom on every rank, so of two lines in the same block the later one was reached too early. Two
arms of one `if` tell nothing: a branch on the rank is legitimate.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from ..calls import file_name, place
from ..phrases import code_lines
from ..wire import CallSite, Evidence

Block = tuple[tuple[int, str], ...]  # the statements around a line, outermost first: (line, arm)
LOOPS = ("For.", "While.", "AsyncFor.")
DEFINITIONS = ("FunctionDef.", "AsyncFunctionDef.", "ClassDef.")
JUMPS = (ast.Return, ast.Break, ast.Continue, ast.Raise)


@lru_cache(maxsize=64)
def tree_of(source: str) -> ast.Module | None:
    """The syntax tree of a cell or file; None if it can't be read."""
    plain = [_without_magic(line) for line in code_lines(source)]
    try:
        return ast.parse("\n".join(plain))
    except (SyntaxError, ValueError):
        return None


def _without_magic(line: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)] + "pass" if bare.startswith(("%", "!")) else line


@lru_cache(maxsize=4096)
def block(source: str, line: int) -> Block | None:
    """The compound statements around a line; () at the top level, None if the source can't be read.

    >>> block("if rank == 0:\\n    f()\\ng()", 2), block("if rank == 0:\\n    f()\\ng()", 3)
    (((1, 'If.body'),), ())
    """
    tree = tree_of(source)
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
        for arm, inside in arms(statement):
            if inside[0].lineno <= line <= (inside[-1].end_lineno or 0):
                if not isinstance(statement, (ast.With, ast.AsyncWith)):
                    around.append((statement.lineno, f"{type(statement).__name__}.{arm}"))
                return inside
    return None


def arms(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The lists of statements inside a compound statement, by name."""
    for arm in ("body", "orelse", "finalbody"):
        inside = getattr(statement, arm, None)
        if isinstance(inside, list) and inside:
            yield arm, inside
    for number, part in enumerate([*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())], start=1):
        yield f"{'handler' if isinstance(part, ast.ExceptHandler) else 'case'} {number}", part.body


def text_of(evidence: Evidence, site: CallSite | None) -> str:
    """The source of a site's cell or file; "" if it is not known."""
    return evidence.sources.get(evidence.source_key(site), "") if site is not None else ""


def _block_of(evidence: Evidence, site: CallSite | None) -> Block | None:
    return block(text_of(evidence, site), site.line) if site is not None else None


def common(one: Block, two: Block) -> int:
    """How many statements two lines are in together."""
    return next((at for at, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), min(len(one), len(two)))


def exclusive(one: Block, two: Block) -> int:
    """The line of the `if` (or `match`) of which two lines are in different arms, so that one pass takes only one; 0 if none.

    >>> source = "if rank:\\n    f()\\nelse:\\n    g()"
    >>> exclusive(block(source, 2) or (), block(source, 4) or ())
    1
    """
    at = common(one, two)
    if at == len(one) or at == len(two) or one[at][0] != two[at][0]:
        return 0
    return one[at][0] if one[at][1].startswith(("If.", "Match.")) else 0


def unconditional(evidence: Evidence, site: CallSite | None) -> bool:
    """Every rank that runs this cell to its end passes this line once."""
    return _block_of(evidence, site) == ()


def in_loop(evidence: Evidence, site: CallSite | None) -> bool:
    """The line may run more than once (or that can't be told)."""
    around = _block_of(evidence, site)
    return around is None or any(arm.startswith((*LOOPS, "FunctionDef")) for _, arm in around)


@lru_cache(maxsize=1024)
def must_differ(source: str, one: int, two: int) -> bool:
    """Whether ranks that are at these two lines of one function at the same time can't all be right.

    Every pass goes through both lines, or through one always and through the other under a condition.

    >>> straight, branch = "a()\\nb()", "if rank:\\n    a()\\nelse:\\n    b()"
    >>> must_differ(straight, 1, 2), must_differ(branch, 2, 4)
    (True, False)
    """
    around, beside = block(source, one), block(source, two)
    if around is None or beside is None:
        return False
    shared = common(around, beside)
    mine, theirs = around[shared:], beside[shared:]
    if mine and theirs:
        return False
    arms = mine or theirs
    if any(arm.startswith(DEFINITIONS) for _, arm in arms):
        return False
    return not (arms and jumps_between(source, *sorted((one, two))))


def is_after_loop(source: str, line: int, inside: int) -> bool:
    """Whether every pass that comes to the loop around `inside` goes through `line`, which comes after the loop.

    >>> loop = "for x in data:\\n    a()\\n"
    >>> is_after_loop(loop + "b()", 3, 2), is_after_loop(loop + "if rank:\\n    b()", 4, 2)
    (True, False)
    """
    around, deeper = block(source, line), block(source, inside)
    if around is None or deeper is None or deeper[: len(around)] != around or len(deeper) == len(around):
        return False
    return deeper[len(around)][1].startswith(LOOPS) and line > inside and must_differ(source, line, inside)


@lru_cache(maxsize=1024)
def jumps_between(source: str, first: int, last: int) -> tuple[int, ...]:
    """The lines of these that hold a return, break, continue or raise."""
    tree = tree_of(source)
    lines = [statement.lineno for statement in ast.walk(tree) if isinstance(statement, JUMPS)] if tree is not None else []
    return tuple(sorted(line for line in lines if first <= line <= last))


def jump_before(evidence: Evidence, site: CallSite) -> CallSite | None:
    """The last line before the site, in its function, that may have left the function or the pass."""
    around = _block_of(evidence, site) or ()
    starts = [line for line, arm in around if arm.startswith((*DEFINITIONS, *LOOPS))]
    found = jumps_between(text_of(evidence, site), starts[-1], site.line - 1) if starts else ()
    return CallSite(site.file, found[-1], site.function) if found else None


def passable(evidence: Evidence, site: CallSite | None) -> bool:
    """Whether a pass through the site's function may miss this line, or take it twice: a branch, a loop, a jump before it."""
    around = _block_of(evidence, site)
    if around is None or site is None:
        return False
    starts = [at for at, (_, arm) in enumerate(around) if arm.startswith(DEFINITIONS)]
    inside = around[starts[-1] + 1 :] if starts else around
    top = around[starts[-1]][0] if starts else 1
    return bool(inside) or bool(starts and jumps_between(text_of(evidence, site), top + 1, site.line - 1))


def loop_of(evidence: Evidence, site: CallSite) -> CallSite | None:
    """The innermost `for` around a line that uses the loop's own variable: each pass has another one.

    >>> e = Evidence(2, sources={"1": "for name in names:\\n    dist.all_reduce(metrics[name])"})
    >>> str(loop_of(e, CallSite("cell 1", 2)))
    'cell 1, line 1'
    """
    tree = tree_of(text_of(evidence, site))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)] if tree is not None else []
    around = [loop for loop in loops if loop.lineno < site.line <= (loop.end_lineno or 0)]
    if not around:
        return None
    loop = max(around, key=lambda one: one.lineno)
    own = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    used = any(isinstance(node, ast.Name) and node.id in own and node.lineno == site.line for node in ast.walk(loop))
    return CallSite(site.file, loop.lineno, site.function) if used else None


def in_handler(evidence: Evidence, path: tuple[CallSite, ...]) -> bool:
    """Whether a chain leads through an `except` or a `finally`."""
    arms = [arm for site in path for _, arm in _block_of(evidence, site) or ()]
    return any(arm.startswith(("Try.handler", "Try.finalbody", "TryStar.")) for arm in arms)


def comes_later(evidence: Evidence, one: CallSite | None, two: CallSite | None, previous: CallSite | None) -> bool | None:
    """Whether `one` comes after `two` when the code is read on from `previous`; None if the source can't tell.

    All are lines of one pass through one function, or of the cell itself.

    >>> e = Evidence(2, sources={"1": "a()\\nb()"})
    >>> comes_later(e, CallSite("cell 1", 2), CallSite("cell 1", 1), None)
    True
    """
    if one is None or two is None or place(one) == place(two) or file_name(one.file) != file_name(two.file):
        return None
    around, beside = _block_of(evidence, one), _block_of(evidence, two)
    if around is None or beside is None or exclusive(around, beside):
        return None
    shared = common(around, beside)
    if any(arm.startswith(DEFINITIONS) for _, arm in (*around[shared:], *beside[shared:])):
        return None
    mine, theirs = _statement(around, shared, one.line), _statement(beside, shared, two.line)
    if mine == theirs:
        return one.line > two.line
    passed = 0
    if (
        previous is not None
        and file_name(previous.file) == file_name(one.file)
        and any(arm.startswith(LOOPS) for _, arm in around[:shared])
    ):
        before = _block_of(evidence, previous) or ()
        if before[:shared] == around[:shared]:
            passed = _statement(before, shared, previous.line)
    again = {line: line < passed or (line == passed and not deeper) for line, deeper in
             ((mine, around[shared:]), (theirs, beside[shared:]))}  # fmt: skip
    return (again[mine], mine) > (again[theirs], theirs)  # in a loop the lines before come next


def _statement(around: Block, shared: int, line: int) -> int:
    """The line on which the statement begins that leads to a line from the block that is shared."""
    return around[shared][0] if len(around) > shared else line
