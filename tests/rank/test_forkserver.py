"""The fork server for real: whatever way the kernel ends, its children end, and theirs."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from labkit.driver.launch import CONTROLLER_ARGUMENTS
from labkit.rank.forkserver import _Server

pytestmark = pytest.mark.slow


def test_a_kernel_that_was_killed_before_it_read_an_answer(root: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    (tmp_path / "log").mkdir()
    env = {**os.environ, "PYTHONPATH": str(root)}
    request = {
        "seq": 1, "kind": "controller", "argv": [f"--profile-dir={tmp_path}", *CONTROLLER_ARGUMENTS], "env": env,
        "log": str(tmp_path / "log" / "controller.log"),
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "labkit.rank.forkserver", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=env
    ) as server:
        theirs.close()
        ours.sendall(json.dumps(request).encode() + b"\n")
        answers = ours.makefile("rb")
        while not json.loads(answers.readline()).get("pid"):
            pass
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
