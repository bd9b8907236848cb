"""A world's private folder, and worlds that outlived their notebook: exactly their processes are ended, and theirs alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit.doctor.base import Context
from labkit.doctor.checks.folders import judge_strays
from labkit.errors import StartError, WireError
from labkit.processes import identify, pid_namespace
from labkit.runfolder import (
    FoundWorlds,
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
)  # fmt: skip

ME = identify(os.getpid())
assert ME is not None


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """Where this test's worlds have their folders."""
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(tmp_path / "runs"))
    return tmp_path / "runs"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_is_private(root: Path) -> None:
    made = RunFolder.create()
    assert made.path.parent == root == run_root()
    assert [mode(path) for path in (root, made.path, made.path / "log", made.path / "security")] == [0o700] * 4
    assert made.path.name.startswith(f"{os.getpid()}-")
    assert RunFolder.create().path != made.path
    assert Path(made.log("rank-0")).parent == made.path / "log"
    made.remove()
    assert not made.path.exists()
    made.remove()


def test_the_private_mode_does_not_hang_on_the_umask(root: Path) -> None:
    old = os.umask(0)
    try:
        made = RunFolder.create()
    finally:
        os.umask(old)
    assert mode(made.path) == 0o700


def test_without_a_setting_it_is_the_users_own(monkeypatch) -> None:
    monkeypatch.delenv("LABKIT_RUN_ROOT", raising=False)
    assert run_root().name == f"labkit-{os.getuid()}"


@pytest.mark.parametrize("bits", [0o755, 0o770, 0o701])
def test_a_root_that_others_may_enter_is_refused(root: Path, bits: int) -> None:
    root.mkdir()
    root.chmod(bits)
    with pytest.raises(StartError, match="is open to other users; remove it, or set LABKIT_RUN_ROOT"):
        RunFolder.create()
    assert list(root.iterdir()) == []


def test_a_root_of_another_user_is_refused(root: Path, monkeypatch) -> None:
    root.mkdir(mode=0o700)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(StartError, match="belongs to another user; remove it, or set LABKIT_RUN_ROOT"):
        RunFolder.create()


def test_a_link_that_another_user_made_is_not_followed(root: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    RunFolder.create().remove()  # our own link may stand for the folder
    status = Path.lstat

    def foreign(path: Path) -> object:
        found = status(path)
        return os.stat_result([*found[:4], os.getuid() + 1, *found[5:]]) if path == root else found

    monkeypatch.setattr(Path, "lstat", foreign)
    with pytest.raises(StartError, match="is a link that another user made"):
        RunFolder.create()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_home_in_the_setting_is_the_same_for_all_who_look(monkeypatch) -> None:
    monkeypatch.setenv("LABKIT_RUN_ROOT", "~/runs")
    assert run_root() == Path.home() / "runs" == Context(2).run_root


def test_a_root_that_is_a_file(root: Path) -> None:
    root.write_text("")
    with pytest.raises(StartError, match="runs is not a folder; remove it, or set LABKIT_RUN_ROOT"):
        RunFolder.create()


@pytest.mark.parametrize("part", ["mkdir", "write_text"])
def test_a_full_disk_at_the_start(root: Path, monkeypatch, part: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    root.mkdir(mode=0o700)
    monkeypatch.setattr(Path, part, full)
    with pytest.raises(StartError, match="No space left on device; free some space"):
        RunFolder.create()


def test_a_full_disk_later_does_not_lose_the_process(root: Path, monkeypatch) -> None:
    made = RunFolder.create()
    whole = (made.path / "world.json").read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        made.note(ME)
    assert (made.path / "world.json").read_text() == whole
    made.note(ME)
    assert list(json.loads((made.path / "world.json").read_text())["pids"]) == [str(os.getpid())]


def test_the_note_says_who_owns_what_since_when(root: Path) -> None:
    made = RunFolder.create()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        identity = identify(child.pid)
        assert identity is not None
        made.note(identity)
        found = json.loads((made.path / "world.json").read_text())
        own = psutil.Process()
        assert (found["owner_pid"], found["owner_start"]) == (own.pid, own.create_time())
        assert found["pids"] == {str(child.pid): psutil.Process(child.pid).create_time()}
        assert found["pid_ns"] == str(Path("/proc/self/ns/pid").readlink())
    made.forget(identity)
    made.forget(identity)
    made.restore()
    assert json.loads((made.path / "world.json").read_text())["pids"] == {}


def test_the_note_is_never_half_written(root: Path, monkeypatch) -> None:
    made = RunFolder.create()
    states: list[dict[str, object]] = []
    write = Path.write_text

    def slowly(path: Path, text: str) -> int:
        write(path, text[:10])
        states.append(json.loads((made.path / "world.json").read_text()))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", slowly)
    made.note(ME)
    assert states[0]["pids"] == {}
    assert json.loads((made.path / "world.json").read_text())["pids"]


# ---- worlds that may have outlived their notebook
GONE = 2**22 - 3  # a pid that hardly any machine has given out
ENTRY = WorldEntry("w1", "/tmp/w1", 100, 1000.0, ((200, 1001.0), (201, 1002.0)))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def write_world(
    root: Path, name: str, owner: int, owner_start: float, pids: dict[int, float], namespace: str | None = None
) -> Path:
    root.mkdir(mode=0o700, exist_ok=True)
    folder = root / name
    folder.mkdir(mode=0o700)
    plain = {"owner_pid": owner, "owner_start": owner_start, "pids": {str(pid): start for pid, start in pids.items()}}
    plain["pid_ns"] = pid_namespace() if namespace is None else namespace
    (folder / "world.json").write_text(json.dumps(plain))
    return folder


def test_a_new_world_removes_folders_of_dead_ones_only(root: Path) -> None:
    me, since = os.getpid(), ME.start_s
    kept = [
        write_world(root, "mine", me, since, {}),
        write_world(root, "orphaned", GONE, 1.0, {me: since}),
        write_world(root, "elsewhere", GONE, 1.0, {}, "pid:[1]"),
        root / "broken",
    ]
    kept[-1].mkdir()
    (kept[-1] / "world.json").write_text("{")
    write_world(root, "left", GONE, 1.0, {GONE - 1: 2.0})
    write_world(root, "reused", me, since - 5000, {})
    made = RunFolder.create()
    assert set(root.iterdir()) == {*kept, made.path}


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
    owner, first, second = ENTRY.owner, *ENTRY.processes
    assert judge_world(ENTRY, [owner, first]).state == "owned"
    stray = judge_world(ENTRY, [first, second])
    assert (stray.state, stray.living) == ("stray", (200, 201))
    assert judge_world(ENTRY, []).state == "dead"


@pytest.mark.parametrize("of_the_world", ["", "pid:[1]"])
def test_a_world_of_another_container_is_not_judged_ended_or_removed(
    root: Path, child: subprocess.Popen[bytes], of_the_world: str
) -> None:
    """Two containers with one /tmp: the numbers of one mean other processes, or nothing, in the other."""
    live = write_world(root, "w1", GONE, 1.0, {GONE - 1: 1.0}, of_the_world)
    same_number = write_world(root, "w2", GONE, 1.0, {child.pid: start_of(child.pid)}, of_the_world)
    assert [world.state for world in find_worlds(root).worlds] == ["elsewhere", "elsewhere"]
    RunFolder.create().remove()
    assert live.exists()
    assert same_number.exists()
    assert stop_world(find_worlds(root).worlds[1]) == ()
    assert child.poll() is None


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
    root.mkdir(mode=0o700)
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
    assert "open to other users" in distrust(root)
    assert find_worlds(root).worlds == ()
    assert not remove_folder(before)
    assert judge_strays(find_worlds(root)).status == "warn"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_believed(root: Path) -> None:
    root.mkdir(mode=0o700)
    os.chown(root, 12345, 12345)
    assert "another user" in distrust(root)


def test_no_run_folder_at_all(tmp_path: Path) -> None:
    assert find_worlds(tmp_path / "none") == FoundWorlds()


def test_judge_strays() -> None:
    stray, owned, dead = WorldFound(ENTRY, "stray", (200, 201)), WorldFound(ENTRY, "owned", (200,)), WorldFound(ENTRY, "dead")
    assert judge_strays(FoundWorlds()).status == "ok"
    assert judge_strays(FoundWorlds((owned,))).detail == "1 world running, nothing left over"
    found = judge_strays(FoundWorlds((stray, owned, dead)))
    assert (found.status, found.detail) == ("warn", "2 processes of 1 world whose notebook has ended")
    assert found.facts["pids"] == (200, 201)
    assert judge_strays(FoundWorlds((dead,))).status == "note"
    assert judge_strays(FoundWorlds((), ("/tmp/x",))).status == "note"
