"""The processes of a world, played by `sleep`: ends are waited for, and none of them touches what came after."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from labkit.driver import cluster as cluster_module
from labkit.driver import launch
from labkit.driver.cluster import Cluster
from labkit.driver.feed import Seat
from labkit.driver.launch import ProcessLauncher, short, title
from labkit.driver.transport import Pending
from labkit.errors import DeadlineExceeded, RankDead, RankError, StartError
from labkit.processes import Child, ExitQueue, identify, wait_ended
from labkit.runfolder import RunFolder
from labkit.wire import Frame, to_plain


class Sleepers:
    """A launcher whose processes all sleep."""

    name = "sleepers"

    def __init__(self) -> None:
        self.exits = ExitQueue()
        self.started: list[Child] = []

    def _start(self, child: Child) -> None:
        process = subprocess.Popen(["sleep", "60"])
        child.process = identify(process.pid)
        self.started.append(child)
        threading.Thread(target=lambda: self.exits.put(child, process.wait())).start()

    def controller(self, child: Child) -> None:
        self._start(child)

    def store(self, child: Child, env: dict[str, str]) -> int:
        self._start(child)
        return 4567

    def rank(self, child: Child, rank: int, env: dict[str, str]) -> None:
        self._start(child)

    def close(self) -> None:
        self.exits.close()


class Transport:
    """Notes which ranks it was told of."""

    def __init__(self, *_: Any) -> None:
        self.gone: list[int] = []
        self.closed = False

    def wait_for_ranks(self, ranks: Any, timeout_s: float) -> None:
        pass

    def wait_gone(self, rank: int, timeout_s: float) -> None:
        pass

    def request(self, rank: int, op: str, payload: Any) -> Pending:
        return Pending(rank, op, 0, None)

    def control(self, rank: int, op: str, payload: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        if rank == 0:
            answer.set_result({"stack": to_plain([Frame("/a/groups.py", 7, "form"), Frame("/t/rendezvous.py", 9, "_store")])})
        return answer

    def rank_gone(self, rank: int) -> None:
        assert not self.closed, "told after it was closed"
        self.gone.append(rank)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(tmp_path / "runs"))
    monkeypatch.setattr(cluster_module, "IppTransport", Transport)
    made = Cluster(RunFolder.create(), Sleepers(), [Seat(0), Seat(1)], backend="gloo", group_timeout_s=10.0)
    made._start_all()
    yield made
    for child in made.launcher.started:
        child.kill()
    made.stop()


def test_stop_waits_for_every_end_and_nothing_follows_from_it(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    children = list(cluster.launcher.started)
    assert sorted(cluster.pids) == ["controller", "rank 0", "rank 1", "store"]
    cluster.stop()
    assert [child.exit_code for child in children] == [-9] * 4
    assert cluster.transport.gone == []
    assert caplog.text == ""
    assert not cluster.folder.path.exists()
    assert cluster.pids == {}


def test_the_ends_of_a_restart_leave_the_new_processes_alone(cluster: Cluster) -> None:
    old = list(cluster.launcher.started)
    cluster.restart()
    assert wait_ended(old, 0) == []
    assert (cluster.controller_state(), cluster._port) == ("running", 4567)
    assert [seat.exit_code for seat in cluster.seats] == [None, None]
    assert not set(cluster.pids.values()) & {child.pid for child in old}


def test_a_rank_that_ends_by_itself_is_told_to_the_transport(cluster: Cluster) -> None:
    os.kill(cluster.pids["rank 1"], signal.SIGKILL)
    until_s = time.monotonic() + 10
    while cluster.transport.gone != [1] and time.monotonic() < until_s:
        time.sleep(0.01)
    assert cluster.seats[1].exit_code == -9
    cluster.end_ranks([1])  # it has ended already


def test_what_can_not_be_ended_is_said_and_can_be_found_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_module, "END_TIMEOUT_S", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(Child, "kill", lambda child: None)
        with pytest.raises(DeadlineExceeded, match="rank 1 did not end") as late:
            cluster.end_ranks([1], 0.05)
        assert late.value.ranks == [1]
        patch.setattr(cluster.launcher, "close", lambda: None)
        pid = cluster.pids["rank 1"]
        cluster.stop()
    assert f"rank 1 (process {pid}) did not end" in caplog.text
    assert cluster.folder.path.exists()


def test_a_stopped_controller_is_known_at_once_and_can_go_on(cluster: Cluster) -> None:
    cluster.check_reachable()
    pid = cluster.pids["controller"]
    os.kill(pid, signal.SIGSTOP)
    until_s = time.monotonic() + 10
    while cluster.controller_state() != "stopped" and time.monotonic() < until_s:
        time.sleep(0.01)
    with pytest.raises(RankError, match=rf"the controller \(process {pid}\) is stopped.*world\.recover\(\)"):
        cluster.check_reachable()
    assert not cluster.lost
    assert cluster.resume_controller()
    assert not cluster.resume_controller()
    assert cluster.controller_state() == "running"
    os.kill(pid, signal.SIGKILL)
    while cluster.controller_state() != "dead" and time.monotonic() < until_s:
        time.sleep(0.01)
    assert cluster.lost
    with pytest.raises(RankDead, match=r"the controller has exited.*world\.recover\(\)"):
        cluster.check_reachable()


def test_a_folder_that_was_deleted_is_said(cluster: Cluster) -> None:
    cluster.folder.remove()
    assert cluster.lost
    with pytest.raises(RankDead, match="was deleted, so no rank can be reached"):
        cluster.check_reachable()


def test_ranks_that_do_not_join_say_where_they_are(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "FORM_TIMEOUT_S", 0.1)
    monkeypatch.setattr(cluster_module, "WHERE_S", 0.1)
    with pytest.raises(DeadlineExceeded) as caught:
        cluster.form("raw")
    assert caught.value.ranks == [0, 1]
    assert "generation 1: rank 0 is in _store, rendezvous.py, line 9;" in str(caught.value)
    assert "rank 1 is" not in str(caught.value)


def test_names_for_people(cluster: Cluster) -> None:
    assert title(Child("rank 2"), cluster.folder) == f"labkit: rank 2 of world {os.getpid()}"
    assert [short(Child(name)) for name in ("controller", "store", "rank 255")] == [
        "labkit control",
        "labkit store",
        "labkit rank 255",
    ]
    assert all(len(short(Child(name))) <= 15 for name in ("controller", "store", "rank 255"))


def test_a_store_of_its_own_interpreter_has_a_deadline_and_leaves_no_thread(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "STORE_TIMEOUT_S", 0.1)
    before = set(threading.enumerate())
    launcher, child = ProcessLauncher(cluster.folder), Child("store")
    monkeypatch.setattr(launch.sys, "executable", "/bin/true")
    monkeypatch.setattr(launch.subprocess, "Popen", _sleeping(launch.subprocess.Popen))
    with pytest.raises(StartError, match="the store gave no port"):
        launcher.store(child, {})
    launcher.close()
    assert child.exit_code == -9
    assert set(threading.enumerate()) == before


def _sleeping(real: Any) -> Any:
    return lambda command, **options: real(["sleep", "60"], **options)
