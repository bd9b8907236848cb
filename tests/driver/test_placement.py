"""Which host each rank is on, what is refused, and what the processes are told."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import psutil
import pytest

from labkit.driver import spaces
from labkit.driver.placement import HostLayout, layout_for, place
from labkit.driver.spaces import Shape
from labkit.driver.start import make_seats
from labkit.errors import LabkitError, UnknownName, UsageError


@pytest.mark.parametrize("order", ["block", "cyclic"])
@pytest.mark.parametrize("hosts", range(1, 6))
@pytest.mark.parametrize("ranks", range(5, 12))
def test_every_host_gets_its_share(ranks: int, hosts: int, order: str) -> None:
    places = place(ranks, hosts, order)
    counts = [places.count(host) for host in range(hosts)]
    assert sum(counts) == ranks
    assert max(counts) - min(counts) <= 1
    assert (places == tuple(sorted(places))) == (order == "block" or hosts in (1, ranks))


@pytest.mark.parametrize(
    ("hosts", "shape", "says"),
    [
        ("down", Shape(), "must be a number or"), (1, Shape(), "from 2"), (-2, Shape(), "from 2"), (True, Shape(), "from 2"),
        (2.0, Shape(), "from 2"), (5, Shape(), "4 ranks are too few for 5 hosts"), (0, Shape("1gbit"), "give hosts=2"),
        ("up", Shape("1gbit"), "belong to"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_anything_is_made(hosts: Any, shape: Shape, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        layout_for(4, hosts, shape, "block")


def test_an_unknown_order_and_no_hosts_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(()))  # whoever runs this may have hosts up
    with pytest.raises(UnknownName, match="did you mean 'block'"):
        place(4, 2, "blok")
    with pytest.raises(UnknownName, match="did you mean 'cyclic'"):
        layout_for(4, 0, Shape(), "cycle")
    assert layout_for(4, 0, Shape(), "block") is None
    with pytest.raises(LabkitError, match="no hosts are up"):
        layout_for(4, "up", Shape(), "block")


class Held:
    """A process that holds a bridge or a host, as psutil shows it."""

    def __init__(self, pid: int, started_s: float, maker: int, number: int, rate: str, kind: str = "") -> None:
        self.pid, self._started_s = pid, started_s
        kind = kind or ("host" if number else "bridge")
        self._mark = {"maker": maker, "number": number, "kind": kind, "lasting": True, "rate": rate, "delay": ""}

    def uids(self) -> Any:
        return type("Uids", (), {"real": os.getuid()})

    def environ(self) -> dict[str, str]:
        return {spaces.MARK: json.dumps(self._mark)}

    def create_time(self) -> float:
        return self._started_s


# two `labkit hosts up` at once: the processes of both start in turn
OLD = [Held(10 + number, 5.0 + number, 1, number, "1gbit") for number in range(3)]
NEW = [Held(20 + number, 5.5 + number, 2, number, "200mbit") for number in range(3)]


@pytest.mark.parametrize("seed", range(12))
def test_of_two_hosts_up_the_newest_is_taken_however_processes_are_listed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [*OLD, *NEW, Held(30, 9.0, 1, 3, "1gbit", "relay")]
    random.Random(seed).shuffle(listed)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(listed))
    found = layout_for(4, "up", Shape(), "block")
    assert found is not None
    assert (found.switch, found.pids, found.relay, found.shape.rate) == (20, (21, 22), 0, "200mbit")


@pytest.mark.parametrize("left", [NEW[1:], NEW[:2]], ids=["no bridge", "one host"])
def test_hosts_that_are_going_are_passed_over(left: list[Held], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([*left, *OLD]))
    found = layout_for(4, "up", Shape(), "block")
    assert found is not None
    assert found.switch == 10


def test_of_two_hosts_up_of_one_moment_it_is_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [Held(40 + number, 5.0, 4, number, "1gbit") for number in range(3)]
    for listed in ([*OLD, *twins], [*twins, *OLD]):
        monkeypatch.setattr(psutil, "process_iter", lambda listed=listed: iter(listed))
        found = layout_for(4, "up", Shape(), "block")
        assert found is not None
        assert found.switch == 40


def test_where_hosts_are_not_allowed_one_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "NEEDED", ("labkit-has-no-such-tool",))
    with pytest.raises(LabkitError, match="is not installed"):
        layout_for(4, 2, Shape(), "block")


def test_what_the_processes_are_told() -> None:
    under = HostLayout((101, 102), 100, Shape("1gbit"), (0, 0, 1, 1))
    seats = make_seats(4, "gloo", [], under)
    assert [seat.host for seat in seats] == ["host 0", "host 0", "host 1", "host 1"]
    assert [seat.env["LABKIT_HOST_PID"] for seat in seats] == ["101", "101", "102", "102"]
    assert {seat.env["GLOO_SOCKET_IFNAME"] for seat in seats} == {"eth0"}
    assert under.environment(3, "nccl")["NCCL_HOSTID"] == "labkit-host-1"
    assert under.store_environment() == {"LABKIT_HOST_PID": "100", "LABKIT_STORE_HOST": "10.77.0.254"}
    assert make_seats(1, "gloo", [])[0].host == "localhost"
