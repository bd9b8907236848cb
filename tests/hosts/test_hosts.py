"""Hosts as network namespaces: what can be asked for, that the rate holds, and that nothing is left however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from labkit import cli
from labkit.driver import spaces
from labkit.errors import LabkitError, UsageError
from labkit.hosts import Hosts, Shape

HERE = Path(__file__).parent.parent.parent
RECEIVE = """
import socket, time
server = socket.create_server(("10.77.0.2", 5000))
print("ready", flush=True)
peer, _ = server.accept()
began, count = time.monotonic(), 0
while data := peer.recv(1 << 16):
    count += len(data)
print(count * 8e-6 / (time.monotonic() - began))
"""
SEND = "import socket; socket.create_connection(('10.77.0.2', 5000)).sendall(bytes(4 << 20))"

reason = spaces.why_not()
needs_hosts = pytest.mark.skipif(bool(reason), reason=reason or "hosts can be made")


def test_what_tc_is_told() -> None:
    assert Shape().commands("eth0") == []
    assert Shape("200mbit").commands("eth0") == [
        "qdisc add dev eth0 root tbf rate 200mbit burst 256kb latency 400ms".split(),
    ]
    assert [len(Shape("1gbit", "2ms").commands("port0"))] == [1]
    both = Shape("1gbit", "2ms").commands("eth0", delayed=True)
    assert [command[4:8] for command in both] == [["root", "handle", "1:", "netem"], ["parent", "1:", "tbf", "rate"]]


@pytest.mark.parametrize(
    "values", [("fast", ""), ("1gbit; reboot", ""), ("0mbit", ""), ("", "2"), ("", "-1ms"), ("-1mbit", ""), (200, ""), ("", None)]
)
def test_shapes_that_are_none_are_refused(values: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="for example"):
        Shape(*values)


@pytest.mark.parametrize("count", [1, 0, 65, True, 2.5])
def test_numbers_of_hosts_that_make_no_sense(count: int) -> None:
    with pytest.raises(UsageError, match="from 2 to 64"):
        Hosts(count)


def test_where_it_is_not_allowed_one_line_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(spaces, "NEEDED", ("labkit-has-no-such-tool",))
    assert cli.main(["hosts", "up"]) == 1
    assert capsys.readouterr().err.startswith("labkit: labkit-has-no-such-tool is not installed")
    monkeypatch.setattr(spaces, "NEEDED", ())
    monkeypatch.setattr(spaces, "_flags", lambda: ["--no-such-flag"])
    with pytest.raises(LabkitError, match="does not allow"):
        Hosts(2)


@needs_hosts
def test_the_rate_holds_and_the_machines_own_network_is_untouched() -> None:
    before = links()
    with Hosts(2, Shape("100mbit")) as hosts:
        pids = hosts.pids
        receiver = subprocess.Popen(hosts.command(1, sys.executable, "-c", RECEIVE), stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        subprocess.run(hosts.command(0, sys.executable, "-c", SEND), check=True, timeout=30)
        with receiver:
            mbit_per_s = float(receiver.communicate(timeout=30)[0])
        assert links() == before
    assert 70 < mbit_per_s < 130
    assert not any(psutil.pid_exists(pid) for pid in pids)


ECHO = """
import socket
server = socket.create_server(("10.77.0.2", 5000))
print("ready", flush=True)
peer, _ = server.accept()
while data := peer.recv(1):
    peer.sendall(data)
"""
PING = """
import socket, statistics, time
peer = socket.create_connection(("10.77.0.2", 5000))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(15):
    began = time.monotonic()
    peer.sendall(b"x")
    peer.recv(1)
    times.append(time.monotonic() - began)
print(statistics.median(times) * 1e3)
"""


@pytest.mark.skipif(bool(spaces.why_not(Shape("", "2ms"))), reason="links can't be delayed here")
@pytest.mark.parametrize("rate", ["", "100mbit"])
def test_a_delay_is_from_host_to_host(rate: str) -> None:
    with Hosts(2, Shape(rate, "5ms")) as hosts:
        answers = subprocess.Popen(hosts.command(1, sys.executable, "-c", ECHO), stdout=subprocess.PIPE, text=True)
        assert answers.stdout is not None
        assert answers.stdout.readline() == "ready\n"
        asked = subprocess.run(
            hosts.command(0, sys.executable, "-c", PING), capture_output=True, text=True, check=True, timeout=30
        )
        with answers:
            answers.communicate(timeout=30)
    assert 10 < float(asked.stdout) < 14  # there and back


@needs_hosts
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_however_up_ends(number: signal.Signals) -> None:
    up, holders = started()
    with up:
        up.send_signal(number)
        assert up.wait(10) == (-9 if number == signal.SIGKILL else 0)
    _, left = psutil.wait_procs(holders, timeout=5)
    assert left == []


@needs_hosts
def test_down_ends_what_is_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    up, holders = started()
    seen = [psutil.Process(), psutil.Process(up.pid), *holders]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(seen))  # hosts of whoever runs this stay up
    with up:
        assert cli.main(["hosts", "down"]) == 0
        assert up.wait(10) == 0
    assert cli.main(["hosts", "down"]) == 0
    assert capsys.readouterr().out == "ended 3 hosts\nno hosts are up\n"


def started() -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A `labkit hosts up`, and the processes that hold its namespaces."""
    command = [sys.executable, "-m", "labkit.cli", "hosts", "up", "--hosts", "3"]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert up.stdout is not None
    lines = [up.stdout.readline() for _ in range(4)]
    assert lines[0].startswith("host 0: 10.77.0.1; nsenter"), lines
    assert "down" in lines[3]
    holders = psutil.Process(up.pid).children()
    assert len(holders) == 4  # three hosts and the bridge
    return up, holders


def links() -> str:
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout


@needs_hosts
def test_a_failure_on_the_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Shape, "commands", lambda shape, device, delayed=False: [["qdisc", "add", "dev", "nowhere", "root", "tbf"]]
    )
    before = set(psutil.Process().children())
    began = time.monotonic()
    with pytest.raises(LabkitError, match="failed"):
        Hosts(2)
    assert time.monotonic() - began < 5
    assert set(psutil.Process().children()) <= before
