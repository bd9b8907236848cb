"""The faults that take a process out of Python's control, watched from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.gloo, pytest.mark.timeout(60)]

# a rank with a second thread that ticks; every line it writes is one character
CHILD = """
import os, signal, sys, threading, time
from dataclasses import dataclass, field
from labkit.faults import FAULTS

def say(what):
    os.write(1, what.encode())

@dataclass
class Pending:
    op: str = "barrier"
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    site: object = None
    number: int = 1
    cell: int = 1

class FaultContext:
    rank, world_size = 0, 2
    def fired(self):
        say("F")

def tick():
    while True:
        say(".")
        time.sleep(0.01)

signal.signal(signal.SIGINT, lambda *_: say("I"))
threading.Thread(target=tick, daemon=True).start()
fault, params = FAULTS[sys.argv[1]], eval(sys.argv[2])
fault.arm(FaultContext(), **params).around(Pending(), lambda call: say("C"))
time.sleep(30)
"""


class Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.seen = process, ""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)

    def read(self) -> str:
        """What the child has said since the last time."""
        new = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.process.stdout.fileno(), 65536):  # type: ignore[union-attr]
                new += piece
        self.seen += new.decode()
        return new.decode()

    def until(self, done: Callable[[], bool], deadline_s: float = 15) -> None:
        limit = time.monotonic() + deadline_s
        while not done():
            assert time.monotonic() < limit, f"not within {deadline_s} s; the child said {self.seen[-80:]!r}"
            time.sleep(0.01)
            self.read()

    def until_it_ticks(self) -> None:
        """Wait until its other thread says something new."""
        self.read()
        heard = self.seen.count(".")
        self.until(lambda: self.seen.count(".") > heard)

    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def start() -> Iterator[Callable[[str, str], Child]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(fault: str, params: str = "{}") -> Child:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([sys.executable, "-c", CHILD, fault, params], stdout=subprocess.PIPE, env=env)
        started.append(process)
        child = Child(process)
        child.until(lambda: "F" in child.seen)
        return child

    yield begin
    for process in started:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def test_killed_fires_and_is_gone(start: Callable[..., Child]) -> None:
    child = start("killed")
    assert child.process.wait(10) == -signal.SIGKILL
    child.read()
    assert "C" not in child.seen


def test_stopped_says_nothing_and_goes_on_when_woken(start: Callable[..., Child]) -> None:
    child = start("stopped")
    child.until(lambda: child.state() == "T")
    child.read()
    time.sleep(0.3)
    assert child.read() == ""
    assert "C" not in child.seen
    child.process.send_signal(signal.SIGCONT)
    child.until(lambda: "C" in child.seen)
    child.until_it_ticks()


def test_holding_the_lock_silences_threads_and_signal_handlers(start: Callable[..., Child]) -> None:
    child = start("holds-gil", "{'seconds': 1.5}")
    begun = time.monotonic()
    time.sleep(0.2)
    child.read()
    while time.monotonic() < begun + 0.9:
        child.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert child.read() == "", "neither the thread nor the handler gets a turn"
    assert child.state() in "SR", "from outside the process looks alive"
    child.until(lambda: "C" in child.seen and "I" in child.seen)
    child.until_it_ticks()


def test_busy_python_leaves_threads_and_handlers_alive(start: Callable[..., Child]) -> None:
    child = start("busy-python", "{'seconds': 20}")
    child.until_it_ticks()
    child.process.send_signal(signal.SIGINT)
    child.until(lambda: "I" in child.seen, 5)
    assert "C" not in child.seen
