"""The fork server for real: whatever way the kernel ends, its children end, and theirs."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit.driver.forkserver import ENVIRONMENT
from labkit.driver.launch import CONTROLLER_ARGUMENTS
from labkit.rank import forkserver
from labkit.rank.forkserver import _Server


@pytest.mark.slow
def test_a_kernel_that_was_killed_before_it_read_an_answer(root: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    (tmp_path / "log").mkdir()
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(root)}
    request = {
        "seq": 1, "kind": "controller", "argv": [f"--profile-dir={tmp_path}", *CONTROLLER_ARGUMENTS], "env": env,
        "log": str(tmp_path / "log" / "controller.log"), "title": "labkit: controller of world 1", "short": "labkit control",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "labkit.rank.forkserver", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=env
    ) as server:
        theirs.close()
        ours.sendall(json.dumps(request).encode() + b"\n")
        answers = ours.makefile("rb")
        while not (answer := json.loads(answers.readline())).get("pid"):
            assert "error" not in answer
        while len(started := psutil.Process(server.pid).children(recursive=True)) < 2:  # the controller has one of its own
            assert server.poll() is None
        assert select.select([ours], [], [], 60)[0]  # "ready", which nobody reads: the other end is told of a reset
        answers.close()
        ours.close()
        assert server.wait(30) == 0
    assert psutil.wait_procs(started, timeout=10)[1] == []


def test_a_child_without_a_session_of_its_own_yet_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "60"])  # in the session of this process
    ends = socket.socketpair()
    server = _Server(ends[0], -1, -1)
    server.children = {child.pid}
    monkeypatch.setattr(os, "_exit", lambda status: None)
    monkeypatch.setattr(server, "end_orphans", lambda: None)
    monkeypatch.setattr(server, "reaped", lambda: False)
    server.end()
    assert child.wait(10) == -signal.SIGKILL
    for end in ends:
        end.close()


def alone(code: str) -> str:
    """What a process of its own prints."""
    env = {**os.environ, **ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=env)
    return done.stdout.strip()


LOOK = "from labkit.rank.forkserver import unsafe_to_fork; print(unsafe_to_fork())"


def test_a_second_thread_makes_a_fork_unsafe() -> None:
    assert alone(LOOK) == ""
    assert "has 2 threads" in alone(f"import threading, time; threading.Thread(target=time.sleep, args=(1,)).start(); {LOOK}")


def test_cuda_makes_a_fork_unsafe() -> None:
    fake = (
        "import sys, types; sys.modules['torch'] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: {}))"
    )
    assert "has initialised CUDA" in alone(f"{fake.format(True)}; {LOOK}")
    assert alone(f"{fake.format(False)}; {LOOK}") == ""


@pytest.fixture
def answering() -> Iterator[tuple[_Server, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield _Server(theirs, -1, -1), ours
    ours.close()
    theirs.close()


def test_an_unsafe_fork_is_refused_in_words(answering: tuple[_Server, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    server, kernel = answering
    monkeypatch.setattr(forkserver, "unsafe_to_fork", lambda: "the fork server has 3 threads")
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    server.perform({"seq": 5, "kind": "rank"})
    assert json.loads(kernel.recv(4096)) == {"seq": 5, "error": "a fork is not safe: the fork server has 3 threads"}


def test_a_store_that_says_no_port_is_not_waited_for_without_end(
    answering: tuple[_Server, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, kernel = answering
    child = subprocess.Popen(["sleep", "60"])  # in place of a store that is stuck, its end of the pipe held open
    monkeypatch.setattr(forkserver, "unsafe_to_fork", lambda: "")
    monkeypatch.setattr(forkserver, "STORE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(os, "fork", lambda: child.pid)
    ends = os.pipe()
    monkeypatch.setattr(os, "pipe", lambda: (ends[0], os.dup(ends[1])))
    server.perform({"seq": 5, "kind": "store", "env": {}})
    os.close(ends[1])
    assert json.loads(kernel.recv(4096)) == {"seq": 5, "error": "the store could not start"}
    assert child.wait(10) == -signal.SIGKILL
