"""Worlds that outlived their notebook: exactly their processes are ended, by pid and create time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit.doctor.checks.strays import judge_strays
from labkit.doctor.strays import (
    RunFolder,
    WorldEntry,
    WorldFound,
    distrust,
    find_worlds,
    judge_world,
    parse_world,
    remove_folder,
    run_root,
    stop_world,
)
from labkit.errors import WireError

GONE = 2**22 - 3  # a pid that hardly any machine has given out
ENTRY = WorldEntry("w1", "/tmp/w1", 100, 1000.0, ((200, 1001.0), (201, 1002.0)))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def write_world(root: Path, name: str, owner: int, owner_start: float, pids: dict[int, float]) -> Path:
    folder = root / name
    folder.mkdir(mode=0o700)
    plain = {"owner_pid": owner, "owner_start": owner_start, "pids": {str(pid): start for pid, start in pids.items()}}
    (folder / "world.json").write_text(json.dumps(plain))
    return folder


def start_of(pid: int) -> float:
    return float(psutil.Process(pid).create_time())


def ended(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is not None or psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE


def test_parse_world() -> None:
    text = '{"owner_pid": 100, "owner_start": 1000.0, "pids": {"201": 1002.0, "200": 1001}, "later": 1}'
    assert parse_world(text, Path("/tmp/w1")) == ENTRY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"owner_pid": 100, "owner_start": 1, "pids": [3]}',
        '{"owner_pid": 100, "owner_start": 1, "pids": {"-1": 1}}',
        '{"owner_pid": 100, "owner_start": 1, "pids": {"1": 1}}',
        '{"owner_pid": 0, "owner_start": 1, "pids": {}}',
        '{"owner_pid": 100, "owner_start": null, "pids": {}}',
    ],
)
def test_a_damaged_world_is_no_world(text: str) -> None:
    with pytest.raises(WireError, match="w1/world"):
        parse_world(text, Path("/tmp/w1"))


def test_judge_world() -> None:
    assert judge_world(ENTRY, {100: 1000.0, 200: 1001.0}).state == "owned"
    stray = judge_world(ENTRY, {200: 1001.0, 201: 1002.0})
    assert (stray.state, stray.living) == ("stray", (200, 201))
    assert judge_world(ENTRY, {}).state == "dead"
    # The owner's pid was given to another process; so was rank 201's.
    reused = judge_world(ENTRY, {100: 5000.0, 200: 1001.0, 201: 5000.0})
    assert (reused.state, reused.living) == ("stray", (200,))
    # The clock that create times count from may step by a second.
    assert judge_world(ENTRY, {200: 1002.0}).living == (200,)


def test_a_world_of_another_container_is_left_alone() -> None:
    entry = WorldEntry("w1", "/tmp/w1", 100, 1000.0, (), "pid:[1]")
    assert judge_world(entry, {}, pid_namespace="pid:[2]").state == "elsewhere"
    assert judge_world(entry, {}, pid_namespace="pid:[1]").state == "dead"


def test_a_stray_is_found_and_ended(root: Path, child: subprocess.Popen[bytes]) -> None:
    write_world(root, "w1", GONE, 1.0, {child.pid: start_of(child.pid)})
    (found,) = find_worlds(root).worlds
    assert (found.state, found.living) == ("stray", (child.pid,))
    assert stop_world(found) == (child.pid,)
    assert ended(child)
    (after,) = find_worlds(root).worlds
    assert after.state == "dead"
    assert remove_folder(after)
    assert find_worlds(root).worlds == ()


def test_a_stopped_stray_is_ended_too(root: Path, child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    write_world(root, "w1", GONE, 1.0, {child.pid: start_of(child.pid)})
    (found,) = find_worlds(root).worlds
    assert stop_world(found) == (child.pid,)
    assert ended(child)


def test_a_pid_that_another_process_has_now_is_not_ended(root: Path, child: subprocess.Popen[bytes]) -> None:
    write_world(root, "w1", GONE, 1.0, {child.pid: start_of(child.pid) - 100})
    (found,) = find_worlds(root).worlds
    assert (found.state, found.living) == ("dead", ())
    # And not even if it changes hands between looking and ending.
    entry = WorldEntry("w1", str(root / "w1"), GONE, 1.0, ((child.pid, start_of(child.pid) - 100),))
    stop_world(WorldFound(entry, "stray", (child.pid,)))
    time.sleep(0.3)  # a signal takes a moment to do its work
    assert child.poll() is None
    assert psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE


def test_a_world_with_a_living_owner_is_owned(root: Path, child: subprocess.Popen[bytes]) -> None:
    me = os.getpid()
    write_world(root, "w1", me, start_of(me), {child.pid: start_of(child.pid), me: start_of(me)})
    (found,) = find_worlds(root).worlds
    assert (found.state, found.living) == ("owned", (child.pid,))  # never the owner itself


def test_folders_that_are_not_understood_are_left_alone(root: Path, tmp_path: Path) -> None:
    (root / "odd").mkdir()
    (root / "file").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    write_world(outside, "w2", GONE, 1.0, {})
    (root / "link").symlink_to(outside / "w2")
    found = find_worlds(root)
    assert (found.worlds, found.damaged) == ((), (str(root / "odd"),))


def test_a_folder_that_others_may_write_to_is_not_believed(root: Path, child: subprocess.Popen[bytes]) -> None:
    write_world(root, "w1", GONE, 1.0, {child.pid: start_of(child.pid)})
    (before,) = find_worlds(root).worlds
    root.chmod(0o777)
    assert "others may write" in distrust(root)
    assert find_worlds(root).worlds == ()
    assert not remove_folder(before)
    assert judge_strays(find_worlds(root)).status == "warn"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_believed(root: Path) -> None:
    os.chown(root, 12345, 12345)
    assert "another user" in distrust(root)


def test_no_run_folder_at_all(tmp_path: Path) -> None:
    assert find_worlds(tmp_path / "none") == RunFolder()


def test_run_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(tmp_path))
    assert run_root() == tmp_path
    monkeypatch.delenv("LABKIT_RUN_ROOT")
    assert run_root().name == f"labkit-{os.getuid()}"


def test_judge_strays() -> None:
    stray, owned, dead = WorldFound(ENTRY, "stray", (200, 201)), WorldFound(ENTRY, "owned", (200,)), WorldFound(ENTRY, "dead")
    assert judge_strays(RunFolder()).status == "ok"
    assert judge_strays(RunFolder((owned,))).detail == "1 world running, nothing left over"
    found = judge_strays(RunFolder((stray, owned, dead)))
    assert (found.status, found.detail) == ("warn", "2 processes of 1 world whose notebook is gone")
    assert found.facts["pids"] == (200, 201)
    assert judge_strays(RunFolder((dead,))).status == "note"
    assert judge_strays(RunFolder((), ("/tmp/x",))).status == "note"
