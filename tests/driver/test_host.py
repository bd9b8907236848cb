"""A process as the system shows it: running, stopped, ended but not reaped, gone; and one that is only acted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit import processes
from labkit.driver.host import ScriptedPid, memory_bytes, process_state, send


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait(10)


def becomes(pid: int, state: str) -> bool:
    end_s = time.monotonic() + 5
    while process_state(pid) != state and time.monotonic() < end_s:
        time.sleep(0.01)
    return process_state(pid) == state


def test_the_life_of_a_process(child: subprocess.Popen[bytes]) -> None:
    assert process_state(child.pid) == "running"
    assert send(child.pid, signal.SIGSTOP)
    assert becomes(child.pid, "stopped")
    assert send(child.pid, signal.SIGCONT)
    assert becomes(child.pid, "running")
    assert memory_bytes(child.pid) > 100_000
    assert send(child.pid, signal.SIGKILL)
    assert becomes(child.pid, "dead"), "ended, though nobody has reaped it yet"
    child.wait(5)
    assert process_state(child.pid) == "dead"
    assert not send(child.pid, signal.SIGCONT)
    assert memory_bytes(child.pid) == 0


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 12345])
def test_no_process(pid: int) -> None:
    assert process_state(pid) == "dead"


@pytest.mark.parametrize(
    ("line", "state"),
    [("1 (python3) S 1 2", "running"), ("1 (a) T (b) R 2", "running"), ("1 (a) R) T 1", "stopped"), ("1 (x) t 1", "stopped"),
     ("1 (x) Z 1", "dead"), ("1 (x) X 1", "dead"), ("1 (x) D 1", "running")],
)  # fmt: skip
def test_a_name_with_brackets_does_not_deceive(monkeypatch, line: str, state: str) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: line)
    assert process_state(1) == state


def test_where_there_is_no_proc(monkeypatch, child: subprocess.Popen[bytes]) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert process_state(child.pid) == "running"
    child.send_signal(signal.SIGSTOP)
    assert becomes(child.pid, "stopped")
    assert memory_bytes(child.pid) > 100_000
    assert process_state(2**22 + 12345) == "dead"


def test_where_the_system_does_not_say(monkeypatch) -> None:
    def refused(*_: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refused)
    assert process_state(1) == "unknown"
    monkeypatch.setattr(psutil, "Process", lambda pid: (_ for _ in ()).throw(psutil.AccessDenied(pid)))
    assert processes._state_by_psutil(1) == "unknown"
    assert memory_bytes(1) == 0


def test_a_scripted_pid_is_never_signalled(monkeypatch) -> None:
    def real(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "kill", real)
    pid = ScriptedPid(os.getpid())
    seen = [process_state(pid)]
    for number in (signal.SIGSTOP, signal.SIGUSR1, signal.SIGCONT, signal.SIGKILL):
        assert send(pid, number)
        seen.append(process_state(pid))
    assert seen == ["running", "stopped", "stopped", "running", "dead"]
    assert not send(pid, signal.SIGCONT)
    assert memory_bytes(pid) == 0
