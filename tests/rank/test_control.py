"""What the control thread does for a main thread that is stuck: it interrupts, ends waits, and looks whether anything moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.rank.backends import RankBackend
from labkit.rank.context import RankContext
from labkit.rank.control import waits
from labkit.rank.control.waits import FUTEX, interrupt_main, main_thread_idle, process_idle, refuse, release, sleeps_elsewhere


class Connections(RankBackend):
    """A backend whose wait is over `frees_in_s` after it was cut, or not at all."""

    def __init__(self, context: RankContext, frees_in_s: float | None) -> None:
        super().__init__("gloo")
        self.context, self.frees_in_s = context, frees_in_s
        self.timers: list[threading.Timer] = []

    def release(self, interrupt: Any) -> int:
        if self.frees_in_s is not None:
            self.timers.append(threading.Timer(self.frees_in_s, self.context.leave))
            self.timers[-1].start()
        return 3


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The interrupts that were sent."""
    signals: list[int] = []
    monkeypatch.setattr(waits.os, "kill", lambda pid, number: signals.append(number))
    return signals


@pytest.fixture
def context(tmp_path: Path, sent: list[int]) -> Iterator[RankContext]:
    made = RankContext(0, 2, tmp_path, {})
    made.enter(1)
    yield made
    made.ring.close()


def test_a_wait_that_raises_by_itself_is_not_interrupted_as_well(context: RankContext, sent: list[int]) -> None:
    context.backend = Connections(context, 0.005)
    assert release(context, reason="rank 1 has left") == {"cut": 3}
    assert (sent, context.refusal) == ([], "rank 1 has left")
    context.backend.timers[0].join()


def test_what_is_still_busy_after_the_cut_is_interrupted_once(context: RankContext, sent: list[int]) -> None:
    context.backend = Connections(context, None)
    before = threading.active_count()
    assert release(context) == {"cut": 3}
    assert len(sent) == 1
    assert threading.active_count() == before, "no thread is left behind that would interrupt later"


def test_the_next_request_is_not_interrupted(context: RankContext, sent: list[int]) -> None:
    """The main thread came free and serves another request by the time that the grace is over."""
    context.backend = Connections(context, None)
    timer = threading.Timer(0.01, lambda: context.enter(2))
    timer.start()
    release(context)
    timer.join()
    assert sent == []


@pytest.mark.parametrize("busy", [True, False])
def test_without_interrupt_or_work_connections_are_cut_only(context: RankContext, sent: list[int], busy: bool) -> None:
    context.backend = Connections(context, None)
    if not busy:
        context.leave()
    began_s = time.monotonic()
    assert release(context, interrupt=not busy) == {"cut": 3}
    assert sent == []
    assert time.monotonic() - began_s < waits.GRACE_S, "nothing to wait for"


def test_a_refusal_is_for_one_request(context: RankContext) -> None:
    context.request_id = 7
    refuse(context, reason="too early", request_id=6)
    assert context.refusal == ""
    refuse(context, reason="rank 1 has left", request_id=7)
    assert context.refusal == "rank 1 has left"


def test_only_a_busy_main_thread_is_interrupted(context: RankContext, sent: list[int]) -> None:
    assert interrupt_main(context)
    context.leave()
    assert not interrupt_main(context)
    assert len(sent) == 1


def test_a_thread_that_computes_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time by a script: a busy machine gives a thread no fixed share."""
    now = [0.0]
    monkeypatch.setattr(waits.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waits.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    for share, idle in ((0.0, True), (0.2, True), (0.3, False), (1.0, False)):
        monkeypatch.setattr(waits.time, "process_time", lambda share=share: now[0] * share)
        monkeypatch.setattr(waits.time, "clock_gettime", lambda clock, share=share: now[0] * share)
        assert (process_idle(), main_thread_idle()) == (idle, idle)


@pytest.mark.skipif(not FUTEX, reason="the kernel's numbers are known for two kinds of processors")
@pytest.mark.parametrize(
    ("before", "after", "elsewhere"),
    [
        ("230 0x0 n: 7", "230 0x0 n: 7", True),  # one sleep
        ("230 0x0 n: 7", "230 0x0 n: 9", False),  # it polls with short sleeps
        (f"{FUTEX} 0x0 n: 7", f"{FUTEX} 0x0 n: 7", False),  # it waits for a thread of gloo's
        ("running n: 7", "running n: 7", False),
        ("", "", False),  # the kernel hides it
    ],
)
def test_a_rank_that_sleeps_does_not_wait_for_its_open_calls(before: str, after: str, elsewhere: bool) -> None:
    assert sleeps_elsewhere(before, after) is elsewhere
