"""The kernel's hand on the fork server, against a stub that says what each test wants: every wait ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from labkit.driver import forkserver
from labkit.driver.forkserver import ForkServer
from labkit.errors import StartError

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
    """`server_that("say(seq=request['seq'], pid=7)")`: a client whose server answers like that."""
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


class Exits:
    """Hears of endings."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._one = threading.Event()

    def __call__(self, status: int) -> None:
        self.seen.append(status)
        self._one.set()

    def wait(self) -> list[int]:
        assert self._one.wait(10)
        return self.seen


def fork(server: ForkServer, on_exit: Callable[[int], None] = lambda status: None, **known: str) -> dict:
    return server.fork("rank", ["--x"], {"A": "b"}, "log", on_exit, **known)


def test_a_child_and_its_end(server_that: Maker) -> None:
    exits = Exits()
    server = server_that("say(seq=request['seq'], pid=7); time.sleep(0.1); say(exit=7, status=3)")
    server.ready.result(10)
    assert fork(server, exits)["pid"] == 7
    assert exits.wait() == [3]


def test_a_request_says_all_that_a_child_needs(server_that: Maker) -> None:
    server = server_that("say(seq=request['seq'], pid=7, heard=request)")
    heard = fork(server, folder="f")["heard"]
    assert (heard["kind"], heard["argv"], heard["env"], heard["log"], heard["folder"]) == (
        "rank",
        ["--x"],
        {"A": "b"},
        "log",
        "f",
    )
    assert heard["cwd"]
    json.dumps(heard)


def test_a_child_that_ends_before_its_pid_is_known(server_that: Maker) -> None:
    exits = Exits()
    server = server_that("say(exit=7, status=-11); say(seq=request['seq'], pid=7)")
    fork(server, exits)
    assert exits.wait() == [-11]


def test_replies_in_another_order_find_their_way(server_that: Maker) -> None:
    server = server_that(
        "held = globals().setdefault('held', []); held.append(request['seq']);"
        " len(held) == 2 and [say(seq=n, pid=100 + n) for n in reversed(held)]"
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
    server = server_that("say(seq=request['seq'], pid=7) if request['seq'] == 1 else os._exit(1)", ready="")
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
    server._watch(7, exits)
    assert exits.seen == [-9]


def test_an_error_is_a_start_error_with_another_way(server_that: Maker) -> None:
    server = server_that("say(seq=request['seq'], error='no store')")
    with pytest.raises(StartError, match=r"no store; try labkit.start\(launcher=.subprocess.\)"):
        fork(server)


def test_no_answer_has_a_deadline(server_that: Maker, monkeypatch) -> None:
    server = server_that("pass")
    server.ready.result(10)
    monkeypatch.setattr(forkserver, "FORK_TIMEOUT_S", 0.1)
    with pytest.raises(StartError, match="did not make a rank"):
        fork(server)


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
