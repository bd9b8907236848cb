"""Network namespaces that end with whoever made them.

None has a name or a mount: each is held by one small process that reads from a pipe of ours. However this process
ends, also by SIGKILL, the pipes close, the holders go, and the kernel takes namespaces, links and shaping away. Bridge
and ports are in a namespace of their own, so nothing is ever changed in the machine's own network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabkitError, UsageError
from ..units import is_whole

MARK = "LABKIT_HOSTS"  # in the environment of every holder: who made it, and what for, as JSON
SWITCH = "10.77.0.254"  # the bridge's own address: the world's store listens there
TUN = "/dev/net/tun"
NEEDED = ("ip", "tc", "unshare", "nsenter")
COMMAND_S = 10.0
MOST = 64
_RATE = re.compile(r"[1-9][0-9]{0,5}(k|m|g)bit")
_DELAY = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?(us|ms)")


@dataclass(frozen=True)
class Shape:
    """The links: `rate` of each, both ways ("1gbit"), and how long from a host to another, `delay` ("2ms"); "" leaves it."""

    rate: str = ""
    delay: str = ""

    def __post_init__(self) -> None:
        for name in ("rate", "delay"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(
                    f"{name} must be text, not {getattr(self, name)!r}", hint='for example rate="200mbit", delay="2ms"'
                )
        if self.rate and not _RATE.fullmatch(self.rate):
            raise UsageError(
                f"rate must be a number with kbit, mbit or gbit, not {self.rate!r}", hint="for example 1gbit, 200mbit or 500kbit"
            )
        if self.delay and not _DELAY.fullmatch(self.delay):
            raise UsageError(f"delay must be a number of us or ms, not {self.delay!r}", hint="for example 2ms or 500us")

    @property
    def delay_s(self) -> float:
        """The delay in seconds.

        >>> Shape(delay="500us").delay_s
        0.0005
        """
        unit = 1e-6 if self.delay.endswith("us") else 1e-3
        return float(self.delay[:-2]) * unit if self.delay else 0.0

    def commands(self, device: str, *, delayed: bool = False) -> list[list[str]]:
        """tc's arguments for one device; only the sending end of a link is `delayed`."""
        head = ["qdisc", "add", "dev", device]
        found = []
        if delayed:
            found.append([*head, "root", "handle", "1:", "netem", "delay", self.delay, "limit", "100000"])
        if self.rate:
            place = ["parent", "1:"] if delayed else ["root"]
            found.append([*head, *place, "tbf", "rate", self.rate, "burst", "256kb", "latency", "400ms"])
        return found


def why_not(shape: Shape | None = None) -> str:
    """Why hosts (with links of this shape) can't be made here, in one line; "" if they can."""
    if sys.platform != "linux":
        return "hosts need network namespaces, which only Linux has"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (iproute2 and util-linux have them)"
    done = _try(["unshare", *_flags(), "ip", "link", "add", "lkprobe", "type", "bridge"])
    if done.returncode:
        words = " ".join((done.stderr or "no reason given").split())
        return f"this machine does not allow a network namespace with a bridge: {words}"
    if shape is not None and shape.delay and not os.access(TUN, os.R_OK | os.W_OK) and not has_netem():
        return f"this machine can't delay a link: its kernel has no netem, and you may not open {TUN}"
    return ""


def has_netem() -> bool:
    """Whether this kernel can delay a link itself."""
    return _try(["unshare", *_flags(), "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]).returncode == 0


def _flags() -> list[str]:
    """An ordinary user needs a user namespace around it, in which they may change the network."""
    return ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]


def _try(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


class Hosts:
    """So many hosts on one bridge, host i with address 10.77.0.(i + 1) on its eth0. A context manager; `close` ends them.

    With `lasting`, worlds of other processes may use them, and `labkit hosts down` ends them.
    """

    def __init__(self, count: int = 2, shape: Shape | None = None, *, lasting: bool = False) -> None:
        if not is_whole(count) or not 2 <= count <= MOST:
            raise UsageError(f"hosts must be a whole number from 2 to {MOST}, not {count!r}", hint="for example hosts=2")
        self.shape, self.lasting = shape or Shape(), lasting
        reason = why_not(self.shape)
        if reason:
            raise LabkitError(reason, hint="leave hosts out; everything else works without them")
        self._holders: list[subprocess.Popen[bytes]] = []  # the bridge's, the hosts', and the relay if there is one
        self._count = count
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def switch(self) -> int:
        """The process that holds the bridge."""
        return self._holders[0].pid

    @property
    def pids(self) -> list[int]:
        """The process that holds each host; the bridge's is not among them."""
        return [holder.pid for holder in self._holders[1 : self._count + 1]]

    def __len__(self) -> int:
        return len(self.pids)

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def command(self, host: int, *arguments: str) -> list[str]:
        """A command line that runs `arguments` on a host."""
        return [*_enter(self.pids[host]), *arguments]

    @property
    def alive(self) -> bool:
        return all(holder.poll() is None for holder in self._holders)

    @property
    def wired(self) -> bool:
        """Whether frames pass from host to host: the relay, where there is one, is there."""
        return all(relay.poll() is None for relay in self._holders[self._count + 1 :])

    def close(self) -> None:
        """Let the holders go; the kernel takes the rest away. A second call does nothing."""
        for holder in self._holders:
            assert holder.stdin is not None
            holder.stdin.close()
        for holder in self._holders:
            try:
                holder.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                holder.kill()
                holder.wait()
        self._holders.clear()

    # ---- how they are made
    def _make(self) -> None:
        switch = self._hold(["unshare", *_flags()], "bridge")
        self._do(switch, ["ip", "link", "add", "br0", "type", "bridge"], ["ip", "link", "set", "br0", "up"],
                 ["ip", "address", "add", f"{SWITCH}/24", "dev", "br0"], ["ip", "link", "set", "lo", "up"])  # fmt: skip
        hosts = [self._hold([*_enter(switch), "unshare", "--net"], "host") for _ in range(self._count)]
        netem = bool(self.shape.delay) and has_netem()
        mtu = []
        if self.shape.delay and not netem:
            self._relay(switch, hosts)
            mtu = ["mtu", "9000"]  # the relay pays for each frame, so they are large
        else:
            for number, host in enumerate(hosts):
                self._do(switch, f"ip link add port{number} type veth peer name eth0 netns {host}".split())
        for number, host in enumerate(hosts):
            port = f"port{number}"
            self._do(
                switch,
                ["ip", "link", "set", port, *mtu, "master", "br0", "up"],
                *(["tc", *command] for command in self.shape.commands(port)),
            )
            self._do(
                host,
                ["ip", "link", "set", "lo", "up"],
                ["ip", "address", "add", f"{self.address(number)}/24", "dev", "eth0"],
                ["ip", "link", "set", "eth0", *mtu, "up"],
                *(["tc", *command] for command in self.shape.commands("eth0", delayed=netem)),
            )

    def _relay(self, switch: int, hosts: list[int]) -> None:
        """Wires with a delay, by a process of ours; for a kernel without netem."""
        program = [sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py"))]
        self._hold([*_enter(switch), *program, str(self.shape.delay_s), *map(str, hosts)], "relay", ())

    def _hold(self, prefix: list[str], kind: str, command: Sequence[str] = ("sh", "-c", "echo; read _")) -> int:
        """Start a process in a new namespace that lives as long as our end of its pipe; its pid once it is there."""
        holder = subprocess.Popen(
            [*prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), MARK: self._mark(kind)}, start_new_session=True,
        )  # fmt: skip
        self._holders.append(holder)
        assert holder.stdout is not None
        with holder.stdout:
            there = holder.stdout.readline() == b"\n"
        if not there:
            raise LabkitError(
                f"the {kind}'s network namespace could not be made", hint="try again; `labkit hosts up` says why it can't"
            )
        return holder.pid

    def _mark(self, kind: str) -> str:
        number = len(self._holders)
        shape = {"rate": self.shape.rate, "delay": self.shape.delay}
        return json.dumps({"maker": os.getpid(), "number": number, "kind": kind, "lasting": self.lasting, **shape})

    def _do(self, pid: int, *commands: list[str]) -> None:
        for command in commands:
            done = _try([*_enter(pid), *command])
            if done.returncode:
                raise _failed(command, done.stderr)


def _enter(pid: int) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", "--target", str(pid), *user, "--net"]


def _failed(command: list[str], said: str) -> LabkitError:
    words = " ".join(said.split())
    return LabkitError(
        f"{' '.join(command[:4])} failed: {words}", hint="`labkit hosts up` without --rate and --delay asks for less"
    )


def wait(hosts: Hosts, poll_s: float = 0.2) -> None:
    """Return when the hosts are gone: taken down by somebody else."""
    while hosts.alive:
        time.sleep(poll_s)
