"""The kernel's hand on the fork server, against a stub that says what each test wants: every wait ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from labkit.driver import forkserver
from labkit.driver.forkserver import ForkServer
from labkit.errors import StartError
from labkit.processes import Child, Identity, identify, state, wait_ended

# speaks the protocol on its last argument's socket; `answer(request)` is the test's
STUB = """
import json, os, socket, sys, time
sock = socket.socket(fileno=int(sys.argv[-1]))
def say(**message):
    sock.sendall(json.dumps(message).encode() + b"\\n")
say(ready="controller")
{ready}
for line in sock.makefile("rb"):
    request = json.loads(line)
    {answer}
{end}
"""
READY = 'say(ready="rank")'

Maker = Callable[..., ForkServer]


@pytest.fixture
def server_that(monkeypatch) -> Iterator[Maker]:
    """`server_that("say(seq=request['seq'], pid=7, start=1.0)")`: a client whose server answers like that."""
    made: list[ForkServer] = []
    real = subprocess.Popen

    def make(answer: str, ready: str = READY, end: str = "") -> ForkServer:
        code = STUB.format(ready=ready, answer=answer, end=end)
        monkeypatch.setattr(
            forkserver.subprocess, "Popen", lambda command, **options: real([sys.executable, "-c", code, command[-1]], **options)
        )
        made.append(ForkServer())
        monkeypatch.setattr(forkserver.subprocess, "Popen", real)
        return made[-1]

    yield make
    for server in made:
        server.close()
        assert not server.alive


class Exits(Child):
    """A child that hears of its end."""

    def __init__(self) -> None:
        self.seen: list[int | None] = []
        super().__init__("rank 0", lambda child: self.seen.append(child.exit_code))

    def wait(self) -> list[int | None]:
        assert wait_ended([self], 10) == []
        return [self.exit_code]


def fork(server: ForkServer, child: Child | None = None) -> dict:
    return server.fork(child or Child("rank 0"), {"kind": "rank", "env": {"A": "b"}})


def test_a_child_and_its_end(server_that: Maker) -> None:
    exits = Exits()
    server = server_that("say(seq=request['seq'], pid=7, start=1.0); time.sleep(0.1); say(exit=7, status=3)")
    server.ready.result(10)
    assert fork(server, exits)["pid"] == 7
    assert exits.wait() == [3]


def test_a_request_arrives_whole_and_the_child_is_known_by_number_and_creation(server_that: Maker) -> None:
    server = server_that("say(seq=request['seq'], pid=7, start=1.5, heard=request)")
    child = Child("rank 0")
    assert fork(server, child)["heard"] == {"kind": "rank", "env": {"A": "b"}, "seq": 1}
    assert child.process == Identity(7, 1.5)


def test_a_child_that_ends_before_its_pid_is_known(server_that: Maker) -> None:
    exits = Exits()
    server = server_that("say(exit=7, status=-11); say(seq=request['seq'], pid=7, start=1.0)")
    fork(server, exits)
    assert exits.wait() == [-11]


def test_replies_in_another_order_find_their_way(server_that: Maker) -> None:
    server = server_that(
        "held = globals().setdefault('held', []); held.append(request['seq']);"
        " len(held) == 2 and [say(seq=n, pid=100 + n, start=1.0) for n in reversed(held)]"
    )
    pids: dict[int, int] = {}
    threads = [threading.Thread(target=lambda n=n: pids.update({n: fork(server)["pid"]})) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(pids.values()) == [101, 102]


def test_the_servers_death_resolves_everything(server_that: Maker) -> None:
    exits = Exits()
    server = server_that("say(seq=request['seq'], pid=7, start=1.0) if request['seq'] == 1 else os._exit(1)", ready="")
    fork(server, exits)
    started = time.monotonic()
    with pytest.raises(StartError, match="the fork server has ended"):
        fork(server)
    assert exits.wait() == [-9]
    with pytest.raises(StartError, match="the fork server has ended"):
        server.ready.result(5)
    with pytest.raises(StartError, match="launcher="):
        fork(server)
    assert time.monotonic() - started < 10


def test_a_death_between_reply_and_watch_is_told_too(server_that: Maker) -> None:
    server = server_that("pass")
    exits = Exits()
    server._gone()
    server._adopt(exits, Identity(7, 1.0))
    assert exits.wait() == [-9]


def test_an_error_is_a_start_error_with_another_way(server_that: Maker) -> None:
    server = server_that("say(seq=request['seq'], error='no store')")
    with pytest.raises(StartError, match=r"no store; try labkit.start\(launcher=.subprocess.\)"):
        fork(server)


def test_no_answer_has_a_deadline(server_that: Maker, monkeypatch) -> None:
    server = server_that("pass")
    server.ready.result(10)
    monkeypatch.setattr(forkserver, "FORK_TIMEOUT_S", 0.1)
    with pytest.raises(StartError, match="did not make the rank"):
        fork(server)


def test_what_goes_wrong_after_an_exit_is_no_death_of_the_server(server_that: Maker, caplog) -> None:
    def fails(child: Child) -> None:
        raise PermissionError("not yours")

    server = server_that("say(seq=request['seq'], pid=request['seq'], start=1.0); say(exit=1, status=3)")
    first, second = Child("rank 0", fails), Exits()
    fork(server, first)
    assert wait_ended([first], 10) == []
    fork(server, second)
    assert server.alive
    assert second.exit_code is None
    assert fork(server)["pid"] == 3
    until_s = time.monotonic() + 10
    while "what follows" not in caplog.text and time.monotonic() < until_s:  # said by a thread of its own
        time.sleep(0.01)
    assert "what follows from the exit of rank 0 (process 1) failed" in caplog.text


def test_the_exit_of_one_child_can_wait_for_the_exit_of_another(server_that: Maker) -> None:
    """The reader of exits is never the one that waits for what follows from them."""
    server = server_that("say(seq=request['seq'], pid=request['seq'], start=1.0); request['seq'] == 2 and say(exit=1, status=0)")
    made: list[int] = []
    fork(server, Child("rank 0", lambda child: made.append(fork(server)["pid"])))
    fork(server)
    until_s = time.monotonic() + 10
    while not made and time.monotonic() < until_s:
        time.sleep(0.01)
    assert made == [3]


@pytest.mark.parametrize("how", [TimeoutError, KeyboardInterrupt])
def test_a_child_that_comes_after_the_time_is_ended(server_that: Maker, monkeypatch, how: type[BaseException]) -> None:
    with subprocess.Popen(["sleep", "60"]) as late:
        identity = identify(late.pid)
        assert identity is not None
        server = server_that(f"time.sleep(0.3); say(seq=request['seq'], pid={late.pid}, start={identity.start_s!r})")
        server.ready.result(10)
        if how is TimeoutError:
            monkeypatch.setattr(forkserver, "FORK_TIMEOUT_S", 0.05)
        else:
            monkeypatch.setattr(forkserver.Future, "result", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises((StartError, KeyboardInterrupt)):
            fork(server)
        monkeypatch.undo()
        assert late.wait(10) == -9


def test_a_late_answer_with_a_number_that_is_anothers_by_now_ends_nobody(server_that: Maker, monkeypatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        server = server_that(f"time.sleep(0.2); say(seq=request['seq'], pid={other.pid}, start=1.0)")
        server.ready.result(10)
        monkeypatch.setattr(forkserver, "FORK_TIMEOUT_S", 0.05)
        with pytest.raises(StartError):
            fork(server)
        time.sleep(0.5)
        assert state(identify(other.pid)) == "running"
        other.kill()


def test_a_server_that_can_make_nothing_more_is_replaced(server_that: Maker) -> None:
    server = server_that("sock.sendall(b'not json\\n')", end="time.sleep(60)")
    with pytest.raises(StartError):
        fork(server)
    assert not server.alive
    assert server._process.wait(10) == -9  # its children, which nobody watches now, end with it


def test_nonsense_from_the_server_is_its_end(server_that: Maker) -> None:
    server = server_that("sock.sendall(b'not json\\n')")
    with pytest.raises(StartError, match="has ended"):
        fork(server)


def test_a_server_that_does_not_hang_up_is_ended_by_its_pid(server_that: Maker) -> None:
    server = server_that("pass", end="time.sleep(60)")
    server.ready.result(10)
    server.close(timeout_s=0.2)
    assert not server.alive
    server.close()
