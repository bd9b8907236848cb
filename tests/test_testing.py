"""The leak check bites, and lets the innocent pass."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import testing
from labkit.runfolder import RunFolder
from labkit.testing import MARK, Script, dies, leak_check

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_its_names_are_documented() -> None:
    assert all((getattr(testing, name).__doc__ or "").strip() for name in testing.__all__)


def test_a_scripted_world_leaves_nothing() -> None:
    script = Script(4)
    with leak_check(wait_s=2), script.world() as world:
        script.on("cell", {1: dies()})
        world.run_cell("1")


def test_what_is_cleared_up_is_no_leak() -> None:
    with leak_check(wait_s=5):
        process = subprocess.Popen(SLEEPS)
        process.kill()
        process.wait(10)
        socket.create_server(("127.0.0.1", 0)).close()


def test_what_ends_in_time_is_no_leak() -> None:
    with leak_check(wait_s=5):
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
    process.wait(5)


def test_a_process_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"left behind: processes: \d+"), leak_check(wait_s=0):
        process = subprocess.Popen(SLEEPS)
    process.kill()
    process.wait(10)


def test_an_orphan_is_caught_by_its_mark() -> None:
    code = f"import subprocess; print(subprocess.Popen({SLEEPS!r}, **quiet, start_new_session=True).pid)"
    code = "quiet = {'stdout': -3, 'stderr': -3};" + code
    with pytest.raises(AssertionError, match="processes: ") as caught, leak_check(wait_s=0):
        orphan = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20).stdout)
    assert str(orphan) in str(caught.value)
    os.kill(orphan, 9)


def test_a_port_and_a_descriptor_are_caught() -> None:
    with pytest.raises(AssertionError, match=r"ports: \d+; descriptors: \d+ before, \d+ now"), leak_check(wait_s=0):
        server = socket.create_server(("127.0.0.1", 0))
    server.close()
    with leak_check(wait_s=0, slack=1):
        kept = socket.socket()
    kept.close()


def test_a_folder_is_caught(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(tmp_path / "runs"))
    with pytest.raises(AssertionError, match=f"folders: {os.getpid()}-"), leak_check(wait_s=0):
        made = RunFolder.create()
    made.remove()


def test_the_error_of_the_block_comes_first_and_the_environment_is_as_before() -> None:
    kept: list[socket.socket] = []
    with pytest.raises(ZeroDivisionError), leak_check(wait_s=0):
        kept.append(socket.socket()) or 1 / 0  # a leak, and then an error
    kept[0].close()
    assert MARK not in os.environ
    with leak_check():
        outer = os.environ[MARK]
        with leak_check():
            assert os.environ[MARK] != outer
        assert os.environ[MARK] == outer


REAL = """
from labkit.driver.start import start
from labkit.driver.current import HOLDER
from labkit.testing import leak_check
start(1, "gloo").stop()  # zmq keeps five descriptors for as long as the process lives
HOLDER.drop_server()
for launcher in ("fork", "subprocess"):
    with leak_check(wait_s=10):
        with start(2, "gloo", launcher=launcher) as world:
            world.try_fault("killed", deadline_s=3)
            world.recover()
            assert world.run("all_reduce").values[0] == (3.0,) * 4
with leak_check(wait_s=10):
    world = start(2, "gloo")
    world.try_fault("stopped", deadline_s=1)
    world.stop()
"""


@pytest.mark.gloo
def test_a_real_world_leaves_nothing_whoever_starts_it() -> None:
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
