"""Runs a learner's cell in this rank: compiled under its own name, so that every stack reads "cell 7, line 3"."""

from __future__ import annotations

import ast
import dis
import linecache
import traceback
from typing import Any

from ..errors import LabkitError
from ..faults.base import LeaveCell
from ..frames import is_users_file
from ..wire import CallSite, CodeError, Shown
from .context import RankContext
from .refusal import ended_wait

SHOWN_LIMIT = 20_000
RAISE = dis.opmap["RAISE_VARARGS"]


def run_cell(context: RankContext, shell: Any, code: str, cell: int) -> Shown | None:
    """Execute `code`; the last expression's value is shown and kept as `_`. Exceptions pass through."""
    name = f"cell {cell}"
    source = shell.transform_cell(code) if shell is not None else code
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    shows = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    namespace = context.namespace
    value, ended_well, ended = None, False, None
    context.tap.begin_cell()
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


def describe_error(error: BaseException) -> CodeError:
    """An exception as a record: its innermost line in the learner's code, and a traceback of that code only."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if is_users_file(frame.filename)]
    site = CallSite(users[-1].filename, users[-1].lineno or 0, users[-1].name) if users else None
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith("cell "):
        site = CallSite(error.filename, error.lineno or 0)
    try:
        lines = traceback.format_list(users) + traceback.format_exception_only(error)
        message = error.msg if isinstance(error, SyntaxError) and site is not None else str(error)  # `site` tells the line
    except BaseException as second:  # noqa: BLE001 - an exception whose own text raises must not take the answer with it
        lines, message = [], f"its text can't be had: {type(second).__name__}"
    name = type(error).__name__ if isinstance(error, LabkitError) else type(error).__qualname__
    own = error.__context__ is None and _raised_by_user(error)
    return CodeError(type=name, message=_first_lines(message), site=site, traceback="".join(lines)[-8000:], own=own)


def _raised_by_user(error: BaseException) -> bool:
    """Whether a `raise` statement in the learner's code made this exception, and no call into a library."""
    at = error.__traceback__
    if at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    return is_users_file(code.co_filename) and code.co_code[at.tb_lasti] == RAISE


def _first_lines(message: str, limit: int = 600) -> str:
    """What an exception says, without the C++ frames that torch appends."""
    head = message.split("\nException raised from", 1)[0].strip()
    return head if len(head) <= limit else head[:limit] + " ..."
