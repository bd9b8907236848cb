"""A wire with a delay, for kernels that can't delay one themselves (they lack netem).

`python relay.py DELAY_S PID ...`, run in the network namespace of the bridge, makes a pair of TAP devices for each PID:
`port0`, `port1`, ... here, and `eth0` in that process's namespace. A frame from a host comes here `DELAY_S` later, one
to a host at once, so that it is `DELAY_S` from a host to another. Says one empty line when the devices are there; ends
with its standard input. Standard library only: it has to start in no time.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST_FRAME = 1 << 16


class Lane:
    """One direction of a wire: what was read at one end, until it is due at the other."""

    def __init__(self, source: int, target: int, delay_s: float) -> None:
        self.source, self.target, self.delay_s = source, target, delay_s
        self._frames: deque[tuple[float, bytes]] = deque()

    def take(self, now_s: float) -> None:
        """Read what has come; it is due a delay later."""
        while True:
            try:
                frame = os.read(self.source, _LARGEST_FRAME)
            except BlockingIOError:
                return
            self._frames.append((now_s + self.delay_s, frame))

    def give(self, now_s: float) -> float | None:
        """Write what is due; when the next one will be, if there is one."""
        while self._frames:
            due_s, frame = self._frames[0]
            if due_s > now_s:
                return due_s
            self._frames.popleft()
            try:
                os.write(self.target, frame)
            except OSError:  # a full queue or a device that is down loses frames, as on a wire
                continue
        return None


def open_tap(name: str) -> int:
    """A TAP device of this name in this thread's network namespace."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return device


def wire(number: int, pid: int, delay_s: float) -> tuple[Lane, Lane]:
    """Both directions between `port<number>` here and `eth0` at `pid`."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    port = open_tap(f"port{number}")
    _enter(there)
    host = open_tap("eth0")
    _enter(home)
    os.close(home)
    os.close(there)
    return Lane(port, host, 0.0), Lane(host, port, delay_s)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def main() -> None:
    delay_s, pids = float(sys.argv[1]), map(int, sys.argv[2:])
    lanes = {lane.source: lane for number, pid in enumerate(pids) for lane in wire(number, pid, delay_s)}
    os.write(1, b"\n")
    wait_s: float | None = None
    while True:
        ready, _, _ = select.select([0, *lanes], [], [], wait_s)
        if 0 in ready:  # its end: nobody writes to it
            return
        now_s = time.monotonic()
        for source in ready:
            lanes[source].take(now_s)
        due = [moment for lane in lanes.values() if (moment := lane.give(time.monotonic())) is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None


if __name__ == "__main__":
    main()
