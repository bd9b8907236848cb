"""The calls of a rank that are not done yet: two threads look at them, and a cell ends when they have ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from labkit.rank.open_calls import Line, OpenCalls


class Work:
    """A work that is done after `looks` looks; `error` is how it ended."""

    def __init__(self, looks: int = 0, error: Exception | None = None) -> None:
        self.looks, self.error = looks, error

    def is_completed(self) -> bool:
        time.sleep(0)  # as torch does, it lets another thread run
        self.looks -= 1
        return self.looks < 0

    def exception(self) -> Exception | None:
        return self.error


class Beacon:
    """What was written, by line."""

    def __init__(self) -> None:
        self.states: dict[tuple[int, int], str] = {}
        self.open_calls = OpenCalls(self.finish, lambda work: work.exception() is not None)

    def finish(self, slot: int, index: int, state: str) -> None:
        assert (slot, index) not in self.states, "a line is finished once"
        self.states[slot, index] = state

    def add(self, *works: Work) -> None:
        for number, work in enumerate(works):
            self.open_calls.add(work, Line(0, number))


@pytest.fixture
def beacon() -> Beacon:
    return Beacon()


@pytest.fixture
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_sweep_marks_what_is_done_and_keeps_the_rest_in_order(beacon: Beacon) -> None:
    beacon.add(Work(0), Work(5), Work(0, ValueError("no peer")), Work(5))
    beacon.open_calls.sweep(2)
    assert beacon.states == {(0, 0): "done"}
    beacon.open_calls.sweep()
    assert beacon.states == {(0, 0): "done", (0, 2): "failed"}
    assert len(beacon.open_calls) == 2


def test_a_cell_waits_for_all_of_its_calls(beacon: Beacon) -> None:
    beacon.add(Work(0), Work(3))
    beacon.open_calls.wait()
    assert beacon.states == {(0, 0): "done", (0, 1): "done"}
    assert len(beacon.open_calls) == 0


@pytest.mark.parametrize("by_another_thread", [False, True])
def test_a_failed_call_is_its_cells_error_whoever_saw_it_end(beacon: Beacon, by_another_thread: bool) -> None:
    beacon.add(Work(1, ValueError("no peer")))
    if by_another_thread:
        for _ in range(2):
            beacon.open_calls.sweep()
    with pytest.raises(RuntimeError, match="a collective of this cell failed: no peer"):
        beacon.open_calls.wait()
    beacon.open_calls.begin_cell()
    beacon.open_calls.wait()


def test_a_wait_can_be_interrupted_and_no_call_is_lost(beacon: Beacon) -> None:
    class Interrupting(Work):
        def is_completed(self) -> bool:
            raise KeyboardInterrupt

    beacon.add(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        beacon.open_calls.wait()
    assert len(beacon.open_calls) == 1
    beacon.open_calls.clear()
    beacon.open_calls.sweep()  # the lock is free again
    assert beacon.states == {}


@pytest.mark.parametrize(("ok", "state"), [(True, "done"), (False, "failed")])
def test_what_cant_be_asked_ends_with_its_cell(beacon: Beacon, ok: bool, state: str) -> None:
    beacon.open_calls.add_unknown(Work(), Line(4, 2))
    assert len(beacon.open_calls) == 1
    beacon.open_calls.close(ok)
    assert (beacon.states, len(beacon.open_calls)) == ({(4, 2): state}, 0)


@pytest.mark.usefixtures("_threads_take_turns_often")
def test_the_control_thread_may_sweep_while_a_cell_ends(beacon: Beacon) -> None:
    """Without the lock a look of one thread met a queue that the other was changing, and a healthy cell failed."""
    stop, errors = threading.Event(), []

    def control() -> None:
        while not stop.is_set():
            try:
                beacon.open_calls.sweep()
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=control)
    thread.start()
    try:
        for start in range(0, 3000, 6):
            for number in range(start, start + 6):
                beacon.open_calls.add(Work(number % 4), Line(0, number))
            beacon.open_calls.wait()
            assert {beacon.states[0, number] for number in range(start, start + 6)} == {"done"}
    finally:
        stop.set()
        thread.join()
    assert errors == []
