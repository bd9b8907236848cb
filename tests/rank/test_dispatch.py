"""A request in a rank: whatever happens in an op is its outcome, and an interrupt never costs the answer."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.rank import dispatch
from labkit.rank.context import RankContext
from labkit.wire import Outcome, from_plain


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RankContext]:
    before = signal.getsignal(signal.SIGINT)
    made = RankContext(0, 1, tmp_path, {"x": 1})
    yield made
    made.ring.close()
    assert signal.getsignal(signal.SIGINT) is before


def answer(context: RankContext, op: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(dispatch, "OPS", {"try": op})
    try:
        reply, parts = dispatch.serve(context, None, {"op": "try", "payload": {}, "request_id": 3}, [])
    except KeyboardInterrupt:
        pytest.fail("an interrupt has cost the answer")
    assert (reply["names"], parts) == (["x"], [])
    assert context.main_busy_since_s == 0
    found = from_plain(reply["outcome"])
    assert isinstance(found, Outcome)
    return found


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)
    time.sleep(0)  # Python hears it between two steps


def test_a_value_and_an_error_are_outcomes(context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(context, lambda *_, **__: 5, monkeypatch).value == 5
    failed = answer(context, lambda *_, **__: 1 // 0, monkeypatch)
    assert (failed.status, failed.error and failed.error.type) == ("error", "ZeroDivisionError")


def test_an_op_gets_what_it_names(context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(context, lambda: 3, monkeypatch).value == 3
    assert answer(context, lambda context, *, buffers: [context.rank, buffers], monkeypatch).value == (0, ())
    failed = answer(context, lambda shell, missing: 1, monkeypatch)
    assert failed.error is not None
    assert "missing" in failed.error.message


def test_an_interrupt_ends_an_op(context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(context, lambda *_, **__: interrupt(), monkeypatch).status == "interrupted"


def test_an_interrupt_outside_of_the_op_does_not_cost_the_answer(context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come late: the wait that it was meant to end has ended by then, and the answer is being made."""
    describe, leave = dispatch.describe_error, RankContext.leave

    def interrupted_describe(error: BaseException) -> Any:
        interrupt()
        return describe(error)

    def interrupted_leave(self: RankContext) -> None:
        interrupt()
        leave(self)

    monkeypatch.setattr(dispatch, "describe_error", interrupted_describe)
    monkeypatch.setattr(RankContext, "leave", interrupted_leave)
    assert answer(context, lambda *_, **__: 1 // 0, monkeypatch).status == "error"
    assert answer(context, lambda *_, **__: 5, monkeypatch).value == 5


def test_a_signal_handler_of_the_learners_does_not_cost_the_answer(context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's does: it raises whenever a worker of a DataLoader has died, also while the answer is being made."""

    def raises(number: int, frame: object) -> None:
        raise RuntimeError("worker is killed")

    class Dies(Exception):
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGCHLD)
            return "first"

    def op(*_: object, **__: object) -> None:
        signal.signal(signal.SIGCHLD, raises)
        raise Dies

    before = signal.getsignal(signal.SIGCHLD)
    try:
        failed = answer(context, op, monkeypatch)
        assert failed.error is not None
        assert failed.error.message == "first"
        signal.raise_signal(signal.SIGCHLD)  # between two requests nothing is raised
        assert "killed" in answer(context, lambda *_, **__: signal.raise_signal(signal.SIGCHLD), monkeypatch).error.message
    finally:
        context.held.let_go()
        signal.signal(signal.SIGCHLD, before)
