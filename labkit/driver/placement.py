"""Which host each rank of a world is on, and the environment that puts a rank's process there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import psutil

from ..backends import BACKENDS
from ..errors import LabkitError, StartError, UsageError
from ..processes import state_of_pid
from ..registry import unknown
from ..units import is_whole
from .spaces import MARK, SWITCH, Hosts, Shape

ORDERS = ("block", "cyclic")
ANEW = "world.stop(), and start a new one"


def place(num_ranks: int, num_hosts: int, order: str = "block") -> tuple[int, ...]:
    """The host of each rank: "block" fills host after host, "cyclic" takes the hosts in turn.

    >>> place(4, 2), place(4, 2, "cyclic"), place(3, 2)
    ((0, 0, 1, 1), (0, 1, 0, 1), (0, 0, 1))
    """
    if order not in ORDERS:
        raise unknown("placement", order, ORDERS)
    if num_ranks < num_hosts:
        raise UsageError(f"{num_ranks} ranks are too few for {num_hosts} hosts", hint=f"give at least ranks={num_hosts}")
    if order == "cyclic":
        return tuple(rank % num_hosts for rank in range(num_ranks))
    return tuple(rank * num_hosts // num_ranks for rank in range(num_ranks))


@dataclass(frozen=True)
class HostLayout:
    """The hosts of a world and which ranks are on them. `own`: they were made for this world and end with it."""

    pids: tuple[int, ...]
    switch: int
    shape: Shape
    places: tuple[int, ...]
    own: Hosts | None = None
    relay: int = 0  # that carries the frames of somebody else's hosts, if they have one

    def check(self) -> None:
        """StartError if the hosts are not there any more."""
        there = self.own.alive if self.own is not None else all(state_of_pid(pid) != "dead" for pid in (self.switch, *self.pids))
        if not there:
            raise StartError("the processes that hold this world's hosts have exited", hint=ANEW)

    def check_wire(self) -> None:
        """StartError if nothing can pass from host to host any more."""
        wired = self.own.wired if self.own is not None else self.relay == 0 or state_of_pid(self.relay) != "dead"
        if not wired:
            raise StartError("the relay between this world's hosts has exited, so nothing passes from host to host", hint=ANEW)

    @property
    def store_host(self) -> str:
        return SWITCH

    def store_environment(self) -> dict[str, str]:
        """The store is where all hosts can reach it: at the bridge."""
        return {"LABKIT_HOST_PID": str(self.switch), "LABKIT_STORE_HOST": SWITCH}

    def environment(self, rank: int, backend: str) -> dict[str, str]:
        """What puts a rank's process on its host, and the backend on that host's wire."""
        host = self.places[rank]
        env = {"LABKIT_HOST_PID": str(self.pids[host])}
        return {**env, **BACKENDS[backend].host_environment(host)}

    def close(self) -> None:
        """Take the hosts away if they were made for this world."""
        if self.own is not None:
            self.own.close()


def layout_for(num_ranks: int, hosts: int | str, shape: Shape, order: str) -> HostLayout | None:
    """The hosts for `num_ranks` ranks: None for hosts=0, new ones for a number, those of `labkit hosts up` for "up"."""
    if order not in ORDERS:
        raise unknown("placement", order, ORDERS)
    if hosts == "up":
        if shape != Shape():
            raise UsageError("rate and delay belong to `labkit hosts up`", hint="give them there, or hosts=2 (--hosts 2) here")
        switch, pids, relay, shape = _lasting()
        return HostLayout(pids, switch, shape, place(num_ranks, len(pids), order), relay=relay)
    if isinstance(hosts, str):
        raise UsageError(
            f'hosts must be a number or "up", not {hosts!r}', hint='give a number such as hosts=2, or "up" for `labkit hosts up`'
        )
    if hosts == 0:
        if shape != Shape():
            raise UsageError("rate and delay shape the links between hosts", hint="give hosts=2 (--hosts 2) as well")
        return None
    if not is_whole(hosts) or hosts < 2:
        raise UsageError(f"hosts must be a whole number from 2, not {hosts!r}", hint="for example hosts=2, or leave it out")
    places, own = place(num_ranks, hosts, order), Hosts(hosts, shape)
    return HostLayout(tuple(own.pids), own.switch, own.shape, places, own)


def _lasting() -> tuple[int, tuple[int, ...], int, Shape]:
    """Bridge, hosts, relay (0: none) and shape of the newest `labkit hosts up` of this user.

    Of several, always the one whose bridge was started last, however the machine lists their processes: what was made last
    is what is meant. Of two that were started in the same moment it is the one with the higher process number. One without
    its bridge, or with fewer than two hosts, is going, and is passed over.
    """
    makers: dict[int, dict[int, int]] = {}  # the processes of each, by number: the bridge, the hosts, then the relay
    bridges: dict[int, tuple[float, int, Shape]] = {}
    relays: dict[int, int] = {}
    for process in psutil.process_iter():
        try:
            if process.uids().real != os.getuid() or MARK not in (env := process.environ()):
                continue
            mark = json.loads(env[MARK])
            if not mark["lasting"]:
                continue
            if mark["kind"] == "relay":
                relays[mark["maker"]] = process.pid
                continue
            makers.setdefault(mark["maker"], {})[mark["number"]] = process.pid
            if mark["kind"] == "bridge":
                shape = Shape(mark["rate"], mark["delay"])
                bridges[mark["maker"]] = (process.create_time(), process.pid, shape)
        except (psutil.Error, ValueError, KeyError, TypeError):
            continue
    whole = [maker for maker in bridges if len(makers[maker]) > 2]
    if not whole:
        raise LabkitError("no hosts are up", hint="`labkit hosts up` in a terminal makes some; hosts=2 (--hosts 2) makes its own")
    newest = max(whole, key=lambda maker: bridges[maker][:2])
    bridge, *hosts = (pid for _, pid in sorted(makers[newest].items()))
    return bridge, tuple(hosts), relays.get(newest, 0), bridges[newest][2]
