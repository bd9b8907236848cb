"""Results that are right on one rank alone: reduce and gather give theirs to the root, and a branch on them parts the ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..vocabulary import CallState
from ..wire import Call, CallSite
from . import words
from .alignment import Alignment
from .source import text_of, tree_of

_TO_ROOT = {"reduce": "all_reduce", "gather": "all_gather", "gather_object": "all_gather_object"}
_QUOTED = re.compile(r"`([^`]+)`")


def right_on_the_root_alone(world: Alignment, advice: str, before: Call) -> str:
    """What to add to an advice that quotes the condition on which the ranks part: that it reads a result which only the root of
    an earlier call has; "" if no such call is seen.

    "`loss` is right on rank 0 alone: reduce #1 (cell 7, line 2) gives its result to its dst; use all_reduce, or broadcast it"
    """
    quoted = _QUOTED.search(advice)
    if quoted is None:
        return ""
    read = set(re.findall(r"[A-Za-z_]\w*", quoted[1]))
    for call in _to_a_root(world, before):
        names = {name for site in call.path for name in _given_to(world, site)} & read
        inside = any(world.evidence.source_line(site) == quoted[1] for site in call.path[:-1])  # the condition calls what reduces
        if names or inside:
            name = min(names, key=quoted[1].index) if names else quoted[1]
            root = f"rank {call.root}"
            return (
                f"`{name}` is right on {root} alone: {words.placed(call)} gives its result to {root} (its dst) and to no other; "
                f"use {_TO_ROOT[call.name]}, or broadcast the result before all ranks read it"
            )
    return ""


def _to_a_root(world: Alignment, before: Call) -> Iterator[Call]:
    """The calls of the cell that gave a result to one rank alone, the newest first."""
    every = (call for line in world.calls.values() for call in line if call.cell == world.focus)
    done = {
        (call.group, call.seq): call
        for call in every
        if call.name in _TO_ROOT and call.root >= 0 and call.state == CallState.DONE and call.issued_s <= before.issued_s
    }
    return iter(sorted(done.values(), key=lambda call: -call.issued_s))


def _given_to(world: Alignment, site: CallSite) -> set[str]:
    """The names that hold what the statement at a line has got, and those that were computed from them further down."""
    tree = tree_of(text_of(world.evidence, site))
    if tree is None:
        return set()
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr))]
    here = [node for node in statements if node.lineno <= site.line <= (node.end_lineno or node.lineno)]
    names = {each for node in here for each in (_targets(node) or _arguments(node))}
    for node in sorted(statements, key=lambda each: each.lineno):
        if node.lineno > site.line and names & _names(node):
            names |= _targets(node)
    return names


def _targets(node: ast.stmt) -> set[str]:
    found: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
    found = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else found
    return {each for target in found for each in _names(target)}


def _arguments(node: ast.stmt) -> set[str]:
    """The names given to the call that a statement is: the tensor of a reduce, the list of a gather."""
    call = node.value if isinstance(node, ast.Expr) else None
    given = [*call.args, *(word.value for word in call.keywords)] if isinstance(call, ast.Call) else []
    return {name for each in given for name in _names(each)} - {"rank", "world_size", "dist", "torch"}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
