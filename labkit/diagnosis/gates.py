"""What decides whether a pass comes to a call: the branch, the loop or the jump to look at, in words.

A loop whose number of passes is written in the source decides nothing: only a jump inside of it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..calls import file_name
from ..wire import CallSite, Evidence
from .source import JUMPS, arms, jump_before, text_of, tree_of

_BRANCHES = (ast.If, ast.Match, ast.IfExp, ast.BoolOp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PASSES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class _Gate:
    """A branch or loop around a line, and the part of it that the line is in."""

    node: ast.stmt | ast.expr
    arm: str


def decider(evidence: Evidence, frames: Sequence[CallSite], op: str, beside: CallSite | None) -> str:
    """What to look at on the way through `frames`, the outermost first, to a call of `op`; "" if nothing is seen.

    `beside` is where the other ranks are in the function of the first frame: what is around both decides nothing.

    >>> e = Evidence(2, sources={"1": "if rank == 0:\\n    dist.barrier()\\nf()"})
    >>> decider(e, [CallSite("cell 1", 2)], "barrier", CallSite("cell 1", 3))
    'see why `if rank == 0:` (cell 1, line 1) differs'
    """
    for at, frame in enumerate(frames):
        called = frames[at + 1].function if at + 1 < len(frames) else op
        same_file = at == 0 and beside is not None and file_name(beside.file) == file_name(frame.file)
        shared = _around(evidence, beside, "") if same_file else []
        for gate in reversed(_around(evidence, frame, called)):
            both = any(gate.node is other.node and gate.arm == other.arm for other in shared)
            if not both and (said := _said(evidence, frame, gate)):
                return said
    return ""


def leaving(evidence: Evidence, frame: CallSite) -> str:
    """The jump that may have ended a loop around a line on one rank alone, in words; "" if there is none."""
    for gate in reversed(_around(evidence, frame, "")):
        if isinstance(gate.node, _LOOPS) and (jump := _jump(gate.node)) is not None:
            return _of_jump(evidence, frame, gate.node, jump)
    return ""


def came_first(evidence: Evidence, frame: CallSite) -> str:
    """The jump before a line that may have left its function or its pass on one rank alone, in words; "" if there is none."""
    at, tree = jump_before(evidence, frame), tree_of(text_of(evidence, frame))
    jump = (
        next((node for node in ast.walk(tree) if isinstance(node, JUMPS) and node.lineno == at.line), None)
        if at and tree
        else None
    )
    return _of_jump(evidence, frame, tree, jump) if jump is not None and tree is not None else ""


def _said(evidence: Evidence, frame: CallSite, gate: _Gate) -> str:
    node = gate.node
    site = CallSite(frame.file, getattr(node, "lineno", frame.line), frame.function)
    text = f"`{evidence.source_line(site)}` ({site})"
    if isinstance(node, _BRANCHES):
        return f"see why {text} differs"
    if not isinstance(node, (*_LOOPS, *_PASSES)):
        return ""
    jump = _jump(node) if isinstance(node, _LOOPS) else None
    if _is_fixed(node):
        return _of_jump(evidence, frame, node, jump) if jump is not None else ""
    ends = f", or whether `{evidence.source_line(_site(frame, jump))}` ({_site(frame, jump)}) ends it" if jump is not None else ""
    return f"see why the number of passes of {text} differs{ends}"


def _of_jump(evidence: Evidence, frame: CallSite, within: ast.AST, jump: ast.stmt) -> str:
    """A jump, by the condition that leads to it."""
    ifs = [each for each in ast.walk(within) if isinstance(each, ast.If) and any(inner is jump for inner in ast.walk(each))]
    at = _site(frame, jump)
    if not ifs:
        return f"see whether `{evidence.source_line(at)}` ({at}) came first on one rank"
    why = _site(frame, ifs[-1])
    return f"see why `{evidence.source_line(why)}` ({why}), which leads to `{evidence.source_line(at)}` ({at}), differs"


def _site(frame: CallSite, node: ast.stmt) -> CallSite:
    return CallSite(frame.file, node.lineno, frame.function)


def _jump(loop: ast.AST) -> ast.stmt | None:
    """The last break or return that leaves a loop."""
    found = list(_jumps(loop, outer=True))
    return found[-1] if found else None


def _jumps(node: ast.AST, *, outer: bool) -> Iterator[ast.stmt]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Return) or (outer and isinstance(inner, ast.Break)):
            yield inner
        elif not isinstance(inner, _FUNCTIONS):
            yield from _jumps(inner, outer=outer and not isinstance(inner, _LOOPS))


def _is_fixed(loop: ast.AST) -> bool:
    """The number of passes is written in the source: range(3), a tuple of two."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    given = loop.iter
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.args and given.func.id != "range":
        given = given.args[0]  # enumerate(range(3)), tqdm(range(3))
    if isinstance(given, ast.Call):
        return bool(given.args) and all(isinstance(each, ast.Constant) for each in given.args)
    return isinstance(given, (ast.Tuple, ast.List)) and not any(isinstance(each, ast.Starred) for each in given.elts)


def _around(evidence: Evidence, site: CallSite | None, called: str) -> list[_Gate]:
    """The branches and loops around a line, outermost first; those outside of its function do not count.

    `called` is the function that the line calls: an expression decides about it only if it is inside.
    """
    tree = tree_of(text_of(evidence, site))
    found: list[_Gate] = []
    body: list[ast.stmt] | None = tree.body if tree is not None else None
    while body is not None and site is not None:
        body = _inner(body, site.line, called, found)
    return found


def _inner(body: list[ast.stmt], line: int, called: str, found: list[_Gate]) -> list[ast.stmt] | None:
    """The block inside of a block that a line is in; the gate that leads into it is added to those found."""
    for statement in body:
        if not _holds(statement, line):
            continue
        for arm, inside in arms(statement):
            if inside[0].lineno <= line <= (inside[-1].end_lineno or 0):
                if isinstance(statement, _FUNCTIONS):
                    found.clear()
                elif isinstance(statement, (ast.If, ast.Match, *_LOOPS)):
                    found.append(_Gate(statement, arm))
                return inside
        found.extend(_expressions(statement, line, called))
        return None
    return None


def _expressions(statement: ast.stmt, line: int, called: str) -> Iterator[_Gate]:
    """The conditional expressions and comprehensions of a statement that decide whether its line makes the call."""
    named = called in _called(statement)
    for node in ast.walk(statement):
        if not (isinstance(node, (ast.IfExp, ast.BoolOp, *_PASSES)) and _holds(node, line)):
            continue
        for part in _parts(node):
            names = _called(part)
            if called in names if named else names:
                yield _Gate(node, "")
                break


def _parts(node: ast.AST) -> list[ast.expr]:
    """What an expression evaluates under a condition, or several times."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values[1:]
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]  # type: ignore[attr-defined]


def _called(node: ast.AST) -> set[str]:
    """The names of the functions that are called inside of a node."""
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


def _holds(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
