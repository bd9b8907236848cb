"""Processes are known by number and creation time: a signal reaches that one or nobody, and every exit is told once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit import processes
from labkit.driver.feed import Seat
from labkit.processes import (
    TOLERANCE_S,
    Child,
    ExitQueue,
    Identity,
    ScriptedPid,
    end,
    end_left,
    end_session,
    identify,
    memory_bytes,
    running,
    send,
    state,
    state_of_pid,
    wait_ended,
)  # fmt: skip


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def known(process: subprocess.Popen[bytes]) -> Identity:
    found = identify(process.pid)
    assert found is not None
    return found


def test_the_same_process_and_no_other(child: subprocess.Popen[bytes]) -> None:
    me = known(child)
    assert me.start_s == psutil.Process(child.pid).create_time()
    assert running([me, Identity(me.pid, me.start_s - 100), Identity(2**22 - 3, 1.0)]) == [me]
    assert running([Identity(me.pid, me.start_s + TOLERANCE_S / 2)])  # the clock they are counted from may step


def test_a_number_that_is_none() -> None:
    assert identify(2**22 - 3) is None
    assert identify(-1) is None
    assert state(Identity(-1, 1.0)) == "dead"


def test_states(child: subprocess.Popen[bytes]) -> None:
    me = known(child)
    assert state(me) == "running"
    assert send(me, signal.SIGSTOP)
    while state(me) == "running":
        pass
    assert state(me) == "stopped"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert state(me) == "dead"  # though its entry is still there


@pytest.mark.parametrize("without_handles", [False, True])
def test_a_number_that_was_used_again_is_never_signalled(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, without_handles: bool
) -> None:
    if without_handles:
        monkeypatch.delattr(os, "pidfd_open")
    before = Identity(child.pid, known(child).start_s - 100)
    assert not send(before, signal.SIGKILL)
    assert end([before]) == []
    Child("rank 0", process=before).kill()
    assert state(known(child)) == "running"
    assert send(known(child), signal.SIGKILL)
    assert child.wait(10) == -9


def test_a_process_of_another_user_is_never_signalled(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "user_id", lambda: os.getuid() + 1)
    assert not send(known(child), signal.SIGKILL)
    assert child.poll() is None


def test_not_even_we_end_ourselves() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert not send(me, signal.SIGKILL)


def test_who_does_not_hear_the_request_is_ended() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert end([known(process)], ask_s=0.1) == []
        assert process.wait(10) == -9


def test_a_session_goes_before_its_leader_is_collected() -> None:
    script = "sleep 60 & echo $!"
    leader = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True, text=True)
    assert leader.stdout is not None
    with leader.stdout as pipe:
        left = identify(int(pipe.readline()))
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert left is not None
    assert state(left) == "running"
    end_session(leader.pid)
    assert leader.wait(10) == 0
    assert end([left], ask_s=5) == []
    end_session(leader.pid)  # nobody is in it any more


def becomes(pid: int, wanted: str) -> bool:
    end_s = time.monotonic() + 5
    while state_of_pid(pid) != wanted and time.monotonic() < end_s:
        time.sleep(0.01)
    return state_of_pid(pid) == wanted


def test_the_life_of_a_process(child: subprocess.Popen[bytes]) -> None:
    assert state_of_pid(child.pid) == "running"
    me = known(child)
    assert send(me, signal.SIGSTOP)
    assert becomes(child.pid, "stopped")
    assert send(me, signal.SIGCONT)
    assert becomes(child.pid, "running")
    assert memory_bytes(child.pid) > 10_000
    assert send(me, signal.SIGKILL)
    assert becomes(child.pid, "dead"), "ended, though nobody has reaped it yet"
    child.wait(5)
    assert state_of_pid(child.pid) == "dead"
    assert not send(me, signal.SIGCONT)
    assert memory_bytes(child.pid) == 0


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 12345])
def test_no_process(pid: int) -> None:
    assert state_of_pid(pid) == "dead"


@pytest.mark.parametrize(
    ("line", "state"),
    [("1 (python3) S 1 2", "running"), ("1 (a) T (b) R 2", "running"), ("1 (a) R) T 1", "stopped"), ("1 (x) t 1", "stopped"),
     ("1 (x) Z 1", "dead"), ("1 (x) X 1", "dead"), ("1 (x) D 1", "running")],
)  # fmt: skip
def test_a_name_with_brackets_does_not_deceive(monkeypatch, line: str, state: str) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: line)
    assert state_of_pid(1) == state


def test_where_there_is_no_proc(monkeypatch, child: subprocess.Popen[bytes]) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert state_of_pid(child.pid) == "running"
    child.send_signal(signal.SIGSTOP)
    assert becomes(child.pid, "stopped")
    assert memory_bytes(child.pid) > 10_000
    assert state_of_pid(2**22 + 12345) == "dead"


def test_where_the_system_does_not_say(monkeypatch) -> None:
    def refused(*_: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refused)
    assert state_of_pid(1) == "unknown"
    monkeypatch.setattr(psutil, "Process", lambda pid: (_ for _ in ()).throw(psutil.AccessDenied(pid)))
    assert processes._state_by_psutil(1) == "unknown"
    assert memory_bytes(1) == 0


def test_a_scripted_pid_is_never_signalled(monkeypatch) -> None:
    def real(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "kill", real)
    monkeypatch.setattr(signal, "pidfd_send_signal", real)
    pid = ScriptedPid(os.getpid())
    seat = Seat(0, pid)
    seen = [state_of_pid(pid)]
    for number in (signal.SIGSTOP, signal.SIGUSR1, signal.SIGCONT, signal.SIGKILL):
        assert seat.send(number)
        seen.append(state_of_pid(pid))
    assert seen == ["running", "stopped", "stopped", "running", "dead"]
    assert not seat.send(signal.SIGCONT)
    assert memory_bytes(pid) == 0


def test_a_rank_is_signalled_by_what_it_is_and_not_by_its_number(child: subprocess.Popen[bytes]) -> None:
    seat = Seat(0, child.pid, process=Identity(child.pid, 1.0))
    assert not seat.send(signal.SIGKILL)
    assert not Seat(0, child.pid).send(signal.SIGKILL)
    seat.process = known(child)
    assert seat.send(signal.SIGKILL)
    assert child.wait(10) == -9


def test_what_is_left_of_a_session_goes_when_its_leader_was_collected_by_others(child: subprocess.Popen[bytes]) -> None:
    leader = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE, start_new_session=True, text=True)
    was = known(leader)
    assert leader.stdout is not None
    with leader.stdout as pipe:
        left = identify(int(pipe.readline()))
    assert leader.wait(10) == 0
    assert left is not None
    assert state(left) == "running"
    end_left([Identity(child.pid, 1.0)])  # a number that is another's by now
    assert state(left) == state(known(child)) == "running"
    end_left([was])
    assert becomes(left.pid, "dead")


def test_a_session_whose_number_is_anothers_is_not_touched() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        end_left([Identity(other.pid, known(other).start_s - 100)])
        time.sleep(0.2)
        assert other.poll() is None
        end_left([known(other)])
        assert other.wait(10) == -9


def test_exits_are_told_in_order_whatever_follows_from_them(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, int | None]] = []

    def fails(child: Child) -> None:
        told.append((child.name, child.exit_code))
        raise OSError("as if")

    exits = ExitQueue()
    children = [Child(f"rank {number}", fails) for number in range(3)]
    for number, child in enumerate(children):
        exits.put(child, number)
    exits.close()
    assert told == [("rank 0", 0), ("rank 1", 1), ("rank 2", 2)]
    assert [child.exit_code for child in children] == [0, 1, 2]
    assert caplog.text.count("OSError: as if") == 3
    assert "labkit-exits" not in [thread.name for thread in threading.enumerate()]


def test_a_wait_for_exits_has_an_end() -> None:
    here, never_started = Child("rank 0", process=Identity(7, 1.0)), Child("rank 1")
    assert wait_ended([here, never_started], 0.05) == [here]
    assert never_started.state == "dead"


def titled(env: dict[str, str]) -> tuple[list[str], str, bool]:
    code = (
        "import sys; from labkit.processes import set_title; set_title('labkit: rank 2 of world 2821', 'labkit rank 2');"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "MARK": "m", **env}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = psutil.Process(process.pid)
        return [part for part in seen.cmdline() if part], seen.name(), seen.environ().get("MARK") == "m"


def test_a_title_is_seen_and_the_environment_can_still_be_read() -> None:
    assert titled({"SPT_NOENV": "1"}) == (["labkit: rank 2 of world 2821"], "labkit rank 2", True)


def test_a_title_that_would_cost_the_environment_is_not_set() -> None:
    command, _, readable = titled({"SPT_NOENV": ""})
    assert command[1] == "-c"
    assert readable
