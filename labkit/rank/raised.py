"""Exceptions of a learner's code as records: what ended a cell or a thread, and what the main thread is handling now."""

from __future__ import annotations

import dis
import re
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from ..errors import LabkitError
from ..frames import is_users_file
from ..phrases import cut
from ..wire import CallSite, CodeError
from .parameters import parameters_of, with_names

RAISE = dis.opmap["RAISE_VARARGS"]
MOST = 600  # characters of a message


def describe_error(error: BaseException, *, alone: bool = False) -> CodeError:
    """An exception as a record: its innermost line in the learner's code, and a traceback of that code only.

    What was being handled when it was raised is told too, unless `alone`.
    """
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
    models, message = parameters_of(error, message), with_names(error, message)
    message, site = _of_a_worker(message, site)
    return CodeError(name, _first_lines(message), site, "".join(lines)[-8000:], own, None if alone else _before(error), models)


def _before(error: BaseException) -> CodeError | None:
    """The oldest exception of the learner's code that was being handled when this one was raised."""
    found, seen = None, {id(error)}
    at: BaseException | None = error
    while at is not None:
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
        if at is None or id(at) in seen:
            break
        seen.add(id(at))
        found = at if _is_users(at.__traceback__) else found
    return describe_error(found, alone=True) if found is not None else None


def handled_now() -> CodeError | None:
    """The exception that the main thread is handling, if the learner's code had a part in it; None if it handles none.

    A library may handle one of its own above it (and have the learner's as its context).
    """
    active: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error = active[1] if isinstance(active, tuple) else active
    if not isinstance(error, BaseException):
        return None
    return _before(error) or (describe_error(error, alone=True) if _is_users(error.__traceback__) else None)


def _is_users(at: TracebackType | None) -> bool:
    while at is not None:
        if is_users_file(at.tb_frame.f_code.co_filename):
            return True
        at = at.tb_next
    return False


def _raised_by_user(error: BaseException) -> bool:
    """Whether a `raise` statement in the learner's code made this exception, and no call into a library."""
    at = error.__traceback__
    if at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    return is_users_file(code.co_filename) and code.co_code[at.tb_lasti] == RAISE


_WORKER = re.compile(r"^[\"']?Caught \S+ in (.+?)\.\s*Original Traceback \(most recent call last\):\s*\n(.*)", re.DOTALL)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)


def _of_a_worker(message: str, site: CallSite | None) -> tuple[str, CallSite | None]:
    """What a DataLoader's worker raised: torch raises it again with the worker's traceback as its message."""
    found = _WORKER.match(message)
    if found is None:
        return message, site
    worker, text = found.groups()
    users = [frame for frame in _FRAME.findall(text) if is_users_file(frame[0])]
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    said = last.partition(": ")[2] or last
    return f"{said} (in {worker})", CallSite(users[-1][0], int(users[-1][1]), users[-1][2]) if users else site


def _first_lines(message: str) -> str:
    """What an exception says, without the C++ frames that torch appends; a long text is cut in the middle."""
    return cut(message.split("\nException raised from", 1)[0].strip(), MOST)


class ThreadErrors:
    """Takes note of what ends a thread of this process; `newest` is of the running cell."""

    def __init__(self) -> None:
        self.newest: CodeError | None = None

    def install(self) -> None:
        """Hear of every thread of this process from now on."""
        before = threading.excepthook

        def note(args: Any) -> None:
            if args.exc_value is not None:
                self.newest = describe_error(args.exc_value)
            before(args)

        threading.excepthook = note
