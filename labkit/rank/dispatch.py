"""Requests to this rank: the name of an op and a plain payload in, a plain outcome out.

Two doors. `serve` runs on the main thread, one request at a time, and may be stuck for as long as the
learner's code is. `serve_control` runs on the control thread and answers while the main thread is stuck.
Whatever happens in an op becomes an Outcome; nothing is raised into the engine.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..registry import Registry
from ..wire import Outcome, Shown, from_plain, to_plain
from .context import RankContext
from .raised import describe_error

Reply = tuple[Any, list[bytes]]
Op = Callable[..., Any]

OPS: Registry[Op] = Registry("rank op", "labkit.rank.ops")
CONTROL_OPS: Registry[Op] = Registry("control op", "labkit.rank.control")


class Buffers:
    """A value whose numbers travel beside the JSON: `plain` describes it, `parts` are raw bytes."""

    def __init__(self, plain: Any, parts: list[bytes]) -> None:
        self.plain, self.parts = plain, parts


def serve(context: RankContext, shell: Any, content: dict[str, Any], buffers: list[Any]) -> Reply:
    """Run one request of the main channel; the reply's content is an Outcome in plain form."""
    with _heard_in_ops(context):
        return _serve(context, shell, content, buffers)


@contextmanager
def _heard_in_ops(context: RankContext) -> Iterator[None]:
    """An interrupt ends an op; anywhere else it would cost the answer, and a rank that never answers has to be replaced."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, context.on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def call_op(op: Op, offered: dict[str, Any], payload: dict[str, Any]) -> Any:
    """Call an op with its payload, and with what it names of the things on offer (context, shell, buffers)."""
    names = _parameters(op)
    return op(**{name: thing for name, thing in offered.items() if name in names}, **payload)


@functools.cache
def _parameters(op: Op) -> frozenset[str]:
    return frozenset(inspect.signature(op).parameters)


def _serve(context: RankContext, shell: Any, content: dict[str, Any], buffers: list[Any]) -> Reply:
    started = time.monotonic()
    parts: list[bytes] = []
    is_cell = content.get("op") == "cell"
    held = context.held
    context.request_id = int(content.get("request_id", 0))
    context.enter(int(content["payload"]["cell"]) if is_cell else None)
    try:
        payload = from_plain(content.get("payload", {}))
        op = OPS[content["op"]]
        held.let_go()
        context.interruptible = True
        try:
            value = call_op(op, {"context": context, "shell": shell, "buffers": buffers}, payload)
        finally:
            context.interruptible = False
            held.hold()
        if isinstance(value, Buffers):
            value, parts = value.plain, value.parts
        outcome = Outcome(context.rank, "ok", **_value_or_shown(value))
    except KeyboardInterrupt:
        outcome = Outcome(context.rank, "interrupted")
    except BaseException as error:  # noqa: BLE001 - whatever a cell raises is its outcome
        held.hold()
        described = describe_error(error)
        if is_cell:
            context.error = described
        outcome = Outcome(context.rank, "error", error=described)
    finally:
        context.leave()
    plain = to_plain(replace(outcome, caught=context.caught.newest) if is_cell else outcome)
    plain["elapsed_s"] = time.monotonic() - started
    found = context.tap.notes.take() if is_cell and context.tap is not None else []
    return {"outcome": plain, "names": context.user_names()[:200], "findings": to_plain(found)}, parts


def _value_or_shown(value: Any) -> dict[str, Any]:
    return {"shown": value} if isinstance(value, Shown) else {"value": value}


def serve_control(context: RankContext, content: dict[str, Any]) -> Any:
    """Run one request of the control channel."""
    try:
        op = CONTROL_OPS[content["op"]]
        return {"value": to_plain(call_op(op, {"context": context}, from_plain(content.get("payload", {}))))}
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        return {"error": to_plain(describe_error(error))}
