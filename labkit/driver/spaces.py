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
from dataclasses import dataclass

from ..errors import LabkitError, UsageError
from ..units import is_whole

MARK = "LABKIT_HOSTS"  # in the environment of every holder: who made it, and what for, as JSON
SWITCH = "10.77.0.254"  # the bridge's own address: the world's store listens there
NEEDED = ("ip", "tc", "unshare", "nsenter")
COMMAND_S = 10.0
MOST = 64
_RATE = re.compile(r"[1-9][0-9]{0,5}(k|m|g)bit")
_DELAY = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?(us|ms)")


@dataclass(frozen=True)
class Shape:
    """A host's link, both ways: `rate` as tc writes it ("1gbit"), one-way `delay` ("2ms"); "" leaves it as it is."""

    rate: str = ""
    delay: str = ""

    def __post_init__(self) -> None:
        if self.rate and not _RATE.fullmatch(self.rate):
            raise UsageError(f"{self.rate!r} is no rate", hint="for example 1gbit, 200mbit or 500kbit")
        if self.delay and not _DELAY.fullmatch(self.delay):
            raise UsageError(f"{self.delay!r} is no delay", hint="for example 2ms or 500us")

    def commands(self, device: str) -> list[list[str]]:
        """tc's arguments for one device."""
        head = ["qdisc", "add", "dev", device]
        found = []
        if self.delay:
            found.append([*head, "root", "handle", "1:", "netem", "delay", self.delay, "limit", "100000"])
        if self.rate:
            place = ["parent", "1:"] if self.delay else ["root"]
            found.append([*head, *place, "tbf", "rate", self.rate, "burst", "256kb", "latency", "400ms"])
        return found


def why_not() -> str:
    """Why hosts can't be made here, in one line; "" if they can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's own"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (iproute2 and util-linux have them)"
    done = _try(["unshare", *_flags(), "ip", "link", "add", "lkprobe", "type", "bridge"])
    if done.returncode:
        words = " ".join((done.stderr or "no reason given").split())
        return f"this machine does not let you make a network namespace with a bridge: {words}"
    return ""


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
            raise UsageError(f"{count!r} hosts make no sense", hint=f"give a whole number from 2 to {MOST}")
        reason = why_not()
        if reason:
            raise LabkitError(reason, hint="everything but several hosts works without")
        self.shape, self.lasting = shape or Shape(), lasting
        self._holders: list[subprocess.Popen[bytes]] = []
        try:
            self._make(count)
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
        return [holder.pid for holder in self._holders[1:]]

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
    def _make(self, count: int) -> None:
        switch = self._hold(["unshare", *_flags()])
        self._do(switch, ["ip", "link", "add", "br0", "type", "bridge"], ["ip", "link", "set", "br0", "up"],
                 ["ip", "address", "add", f"{SWITCH}/24", "dev", "br0"], ["ip", "link", "set", "lo", "up"])  # fmt: skip
        for number in range(count):
            host = self._hold([*_enter(switch), "unshare", "--net"])
            port = f"port{number}"
            self._do(
                switch,
                ["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host)],
                ["ip", "link", "set", port, "master", "br0", "up"],
                *(["tc", *command] for command in self.shape.commands(port)),
            )
            self._do(
                host,
                ["ip", "link", "set", "lo", "up"],
                ["ip", "address", "add", f"{self.address(number)}/24", "dev", "eth0"],
                ["ip", "link", "set", "eth0", "up"],
                *(["tc", *command] for command in self.shape.commands("eth0")),
            )

    def _hold(self, prefix: list[str]) -> int:
        """Start a process in a new namespace that lives as long as our end of its pipe; its pid once it is there."""
        holder = subprocess.Popen(
            [*prefix, "sh", "-c", "echo; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), MARK: self._mark()}, start_new_session=True,
        )  # fmt: skip
        self._holders.append(holder)
        assert holder.stdout is not None
        with holder.stdout:
            there = holder.stdout.readline() == b"\n"
        if not there:
            raise LabkitError("a network namespace could not be made", hint="try again; `labkit hosts up` says why it can't")
        return holder.pid

    def _mark(self) -> str:
        number = len(self._holders)  # 0 is the bridge's
        shape = {"rate": self.shape.rate, "delay": self.shape.delay}
        return json.dumps({"maker": os.getpid(), "number": number, "lasting": self.lasting, **shape})

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
    if "netem" in command:
        return LabkitError(f"this kernel has no netem, so it can't delay a link: {words}", hint="leave --delay out; --rate works")
    return LabkitError(
        f"{' '.join(command[:4])} failed: {words}", hint="`labkit hosts up` without --rate and --delay asks for less"
    )


def wait(hosts: Hosts, poll_s: float = 0.2) -> None:
    """Return when the hosts are gone: taken down by somebody else."""
    while hosts.alive:
        time.sleep(poll_s)
