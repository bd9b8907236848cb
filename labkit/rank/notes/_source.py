"""The expression of a call that is being made, from the frame that makes it."""

from __future__ import annotations

import ast
import itertools
import linecache
from functools import lru_cache
from types import CodeType, FrameType


def call_node(frame: FrameType) -> ast.Call | None:
    """The call that a frame is making; None where its source can't be had."""
    return _call_node(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=512)
def _call_node(code: CodeType, at: int) -> ast.Call | None:
    place = next(itertools.islice(code.co_positions(), at // 2, None), None)
    if place is None or None in place:
        return None
    line, end_line, column, end_column = place
    assert line is not None
    assert end_line is not None
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : end_line]]
    if len(lines) != end_line - line + 1:
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        tree = ast.parse(b"(" + b"".join(lines) + b")", mode="eval")
    except (SyntaxError, ValueError):
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None


def argument_node(node: ast.Call, at: int, name: str) -> ast.expr | None:
    """The expression of one argument, by place or by name; None if it is not written there."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    before = node.args[: at + 1]
    return before[at] if len(before) > at and not any(isinstance(arg, ast.Starred) for arg in before) else None


def argument(node: ast.Call, at: int, name: str) -> str:
    """The text of one argument; "" if it is not written there."""
    found = argument_node(node, at, name)
    return ast.unparse(found) if found is not None else ""


def waits_at_once(frame: FrameType) -> bool:
    """Whether the handle that a call returns is used for `.wait()` and for nothing else."""
    place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, column = place[1], place[3]
    if line is None or column is None:
        return False
    text = linecache.getline(frame.f_code.co_filename, line).encode()[column:]
    return text.startswith(b".wait()")
