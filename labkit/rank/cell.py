"""Runs a learner's cell in this rank: compiled under its own name, so that every stack reads "cell 7, line 3"."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from ..faults.base import LeaveCell
from ..phrases import code_lines
from ..places import cell_name
from ..wire import Shown
from .caught import with_notes
from .context import RankContext
from .raised import describe_error
from .refusal import ended_wait

SHOWN_LIMIT = 20_000


def run_cell(context: RankContext, shell: Any, code: str, cell: int) -> Shown | None:
    """Execute `code`; the last expression's value is shown and kept as `_`. Exceptions pass through."""
    name = cell_name(cell)
    source = as_python(shell, code)
    linecache.cache[name] = (len(source), None, [f"{line}\n" for line in code_lines(source)], name)
    tree = with_notes(ast.parse(source, name))
    last = tree.body[-1] if tree.body else None
    shows = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    namespace = context.namespace
    value, ended_well, ended = None, False, None
    context.tap.begin_cell()
    context.caught.begin_cell()
    try:
        if shows:
            body = ast.Module(tree.body[:-1], type_ignores=[])
            exec(compile(body, name, "exec"), namespace)  # noqa: S102 - running the learner's code is its purpose
            assert isinstance(last, ast.Expr)
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
        else:
            exec(compile(tree, name, "exec"), namespace)  # noqa: S102
        context.tap.end_cell()
        ended_well = True
    except LeaveCell:
        return None
    except (RuntimeError, KeyboardInterrupt) as error:
        ended = ended_wait(context, error, describe_error(error).site)
        if ended is None:
            raise
    finally:
        context.tap.close_cell(ended_well)
    if ended is not None:
        raise ended
    if value is None:
        return None
    namespace["_"] = value
    return show(value, shell)


def as_python(shell: Any, code: str) -> str:
    """A cell without IPython's own syntax, line by line as it was typed: IPython would cut off blank lines at its beginning."""
    if shell is None:
        return code
    lines = code_lines(code)
    blank = next((number for number, line in enumerate(lines) if line.strip()), 0)
    return "\n" * blank + str(shell.transform_cell("\n".join(lines[blank:]) + "\n"))


def show(value: Any, shell: Any = None, limit: int = SHOWN_LIMIT) -> Shown:
    """A value's text (cut at `limit` characters) and HTML, as IPython would show it."""
    data: dict[str, Any] = {}
    if shell is not None:
        data, _ = shell.display_formatter.format(value, include={"text/plain", "text/html"})
    text = data.get("text/plain")
    if text is None:
        text = repr(value)
    html = data.get("text/html", "")
    return Shown(
        text=text[:limit], type=type(value).__name__, html=html if len(html) <= limit else "", cut=max(0, len(text) - limit)
    )
