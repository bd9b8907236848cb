"""A world's private folder: nobody else's to read, whole at every moment, and a StartError where it can't be had."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from labkit.driver.rundir import RunDir, run_root, sweep
from labkit.errors import StartError


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """Where this test's worlds have their folders."""
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(tmp_path / "runs"))
    return tmp_path / "runs"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_is_private(root: Path) -> None:
    made = RunDir.create()
    assert made.path.parent == root == run_root()
    assert [mode(path) for path in (root, made.path, made.path / "log", made.path / "security")] == [0o700] * 4
    assert made.path.name.startswith(f"{os.getpid()}-")
    assert RunDir.create().path != made.path
    assert Path(made.log("rank-0")).parent == made.path / "log"
    made.remove()
    assert not made.path.exists()
    made.remove()


def test_the_private_mode_does_not_hang_on_the_umask(root: Path) -> None:
    old = os.umask(0)
    try:
        made = RunDir.create()
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
        RunDir.create()
    assert list(root.iterdir()) == []


def test_a_root_of_another_user_is_refused(root: Path, monkeypatch) -> None:
    root.mkdir(mode=0o700)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(StartError, match="is open to other users"):
        RunDir.create()


def test_a_root_that_is_a_file(root: Path) -> None:
    root.write_text("")
    with pytest.raises(StartError, match=r"can't write in .*runs: File exists; free some space, or set LABKIT_RUN_ROOT"):
        RunDir.create()


@pytest.mark.parametrize("part", ["mkdir", "write_text"])
def test_a_full_disk_at_the_start(root: Path, monkeypatch, part: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    root.mkdir(mode=0o700)
    monkeypatch.setattr(Path, part, full)
    with pytest.raises(StartError, match="No space left on device; free some space"):
        RunDir.create()


def test_a_full_disk_later_does_not_lose_the_process(root: Path, monkeypatch) -> None:
    made = RunDir.create()
    whole = (made.path / "world.json").read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        made.note(os.getpid())
    assert (made.path / "world.json").read_text() == whole
    made.note(os.getpid())
    assert list(json.loads((made.path / "world.json").read_text())["pids"]) == [str(os.getpid())]


def test_the_note_says_who_owns_what_since_when(root: Path) -> None:
    made = RunDir.create()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        made.note(child.pid)
        found = json.loads((made.path / "world.json").read_text())
        own = psutil.Process()
        assert (found["owner_pid"], found["owner_start"]) == (own.pid, own.create_time())
        assert found["pids"] == {str(child.pid): psutil.Process(child.pid).create_time()}
    made.forget(child.pid)
    made.forget(child.pid)
    made.note()
    assert json.loads((made.path / "world.json").read_text())["pids"] == {}


def test_a_process_that_has_ended_before_it_was_noted(root: Path) -> None:
    made = RunDir.create()
    made.note(2**22 + 12345)
    assert json.loads((made.path / "world.json").read_text())["pids"] == {}


def test_the_note_is_never_half_written(root: Path, monkeypatch) -> None:
    made = RunDir.create()
    states: list[dict[str, object]] = []
    write = Path.write_text

    def slowly(path: Path, text: str) -> int:
        write(path, text[:10])
        states.append(json.loads((made.path / "world.json").read_text()))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", slowly)
    made.note(os.getpid())
    assert states[0]["pids"] == {}
    assert json.loads((made.path / "world.json").read_text())["pids"]


# ---- folders of kernels that were killed
def note(root: Path, name: str, owner: tuple[int, float], pids: dict[int, float]) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    text = json.dumps({"owner_pid": owner[0], "owner_start": owner[1], "pids": {str(p): t for p, t in pids.items()}})
    (folder / "world.json").write_text(text)
    return folder


def test_only_what_belongs_to_nobody_is_swept(root: Path) -> None:
    me, since = os.getpid(), psutil.Process().create_time()
    mine = note(root, "mine", (me, since), {})
    orphaned = note(root, "orphaned", (2**22 + 5, 1.0), {me: since})
    left = note(root, "left", (2**22 + 5, 1.0), {2**22 + 6: 2.0})
    reused = note(root, "reused", (me, since - 5000), {})
    broken = root / "broken"
    broken.mkdir()
    (broken / "world.json").write_text("{")
    sweep(root)
    assert {path.name for path in root.iterdir()} == {"mine", "orphaned", "broken"}
    assert not any(path.exists() for path in (left, reused))
    assert mine.exists()
    assert orphaned.exists()
