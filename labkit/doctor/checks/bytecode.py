"""Does every process compile torch anew? Then every start is slow, and nothing says why."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from ..base import Context, Finding, check


def judge_bytecode(env: Mapping[str, str], compiled: bool | None) -> Finding:
    """`compiled`: torch has byte code for this Python on disk; None if torch was not found."""
    never = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    facts = {"compiled": compiled, "never_written": never}
    if compiled is None:
        return Finding("note", "torch was not found, nothing to look at", facts=facts)
    if compiled:
        return Finding("ok", "torch is compiled", facts=facts)
    if never:
        text = "torch is not compiled and PYTHONDONTWRITEBYTECODE keeps it so: imports take twice as long"
        return Finding("note", text, "python -m compileall -q -j0 <environment>/lib, once", facts)
    return Finding("note", "torch is not compiled yet: the first import is slow", facts=facts)


def torch_is_compiled() -> bool | None:
    """Looks for the file, imports nothing."""
    # The path finder alone: find_spec would answer from sys.modules, or run a parent package.
    spec = importlib.machinery.PathFinder.find_spec("torch", [p for p in sys.path if p])
    if spec is None or not spec.origin:
        return None
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


@check("bytecode", "Byte code", order=13)
def run(context: Context) -> Finding:
    return judge_bytecode(context.env, torch_is_compiled())
