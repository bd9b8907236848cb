"""Whether a function reads a local variable after a call that it is making, and what the variable was made of."""

from __future__ import annotations

import ast
import dis
import linecache
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: local variables are fast ones, which nobody else can see
_ALL_AT_ONCE = {"locals", "vars", "eval", "exec", "dir"}


def never_read_again(frame: FrameType, name: str) -> bool:
    """Whether no line that can still come reads the variable `name` of this function; False for a module's variables."""
    return _never_read(frame.f_code, frame.f_lasti, name)


@lru_cache(maxsize=512)
def _never_read(code: CodeType, at: int, name: str) -> bool:
    if not code.co_flags & _OPTIMIZED or name not in code.co_varnames or name in code.co_cellvars:
        return False
    if _ALL_AT_ONCE & set(code.co_names):
        return False
    steps = list(dis.get_instructions(code))
    if any(step.offset > at and _reads(step, name) for step in steps):
        return False
    loops = [step.argval for step in steps if step.offset > at and "JUMP" in step.opname and isinstance(step.argval, int)]
    return not any(_read_first(steps, begin, at, name) for begin in loops if begin <= at)


def _read_first(steps: list[dis.Instruction], begin: int, end: int, name: str) -> bool:
    """Whether the next turn of a loop reads the variable before it gives it a new value."""
    for step in steps:
        if begin <= step.offset <= end:
            if _reads(step, name):
                return True
            if step.opname == "STORE_FAST" and step.argval == name:
                return False
    return False


def _reads(step: dis.Instruction, name: str) -> bool:
    value: Any = step.argval
    return "LOAD" in step.opname and (value == name or (isinstance(value, tuple) and name in value))


def made_by(frame: FrameType, name: str) -> ast.expr | None:
    """The expression that a variable of this function was last set to above its present line."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and frame.f_code.co_firstlineno <= node.lineno <= frame.f_lineno
        if any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return max(found, key=lambda node: node.lineno).value if found else None
