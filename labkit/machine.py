"""What this machine, or the container on it, has for ranks: memory, CPUs, processes, network interfaces.

The machine's own numbers mislead inside a container: it may show 64 GiB free while the container is killed at 2.
A control group's limit holds for all groups below it, so every level up to the root is read, for version 1 and 2,
and the tightest limit counts. `read` returns the text of a file or None, so that tests bring their own files.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

MAX_RANKS = 256  # on one machine
DEFAULT_RANKS = 4  # where there is no GPU
RANK_BYTES = 160 * 2**20  # memory that one more forked rank takes; measured by `make bench`
IMPORTED_RANK_BYTES = 300 * 2**20  # a rank that imports torch itself (launcher="subprocess")

Read = Callable[[str], str | None]

_ROOT = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 writes "no limit" as a number near 2**63


@dataclasses.dataclass(frozen=True)
class Room:
    """A limit and how much of it is used."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


def memory_room(read: Read) -> Room | None:
    """The tightest memory limit, or None. Page cache that the kernel can drop counts as free."""
    rooms = []
    for folder in _folders(read, "memory"):
        limit = _number(read(f"{folder}/memory.max") or read(f"{folder}/memory.limit_in_bytes"))
        used = _number(read(f"{folder}/memory.current") or read(f"{folder}/memory.usage_in_bytes"))
        if limit is not None and used is not None:
            rooms.append(Room(limit, max(0, used - _droppable(read(f"{folder}/memory.stat") or ""))))
    return min(rooms, key=lambda room: room.free, default=None)


def cpu_quota(read: Read) -> float | None:
    """How many CPUs' worth of time the group may use, or None."""
    shares = []
    for folder in _folders(read, "cpu"):
        quota, _, period = (read(f"{folder}/cpu.max") or "").strip().partition(" ")
        quota = quota or (read(f"{folder}/cpu.cfs_quota_us") or "").strip()
        period = period or (read(f"{folder}/cpu.cfs_period_us") or "").strip()
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            shares.append(int(quota) / int(period))
    return min(shares, default=None)


def process_room(read: Read) -> Room | None:
    """The tightest limit on processes and threads, or None."""
    rooms = []
    for folder in _folders(read, "pids"):
        limit, used = _number(read(f"{folder}/pids.max")), _number(read(f"{folder}/pids.current"))
        if limit is not None and used is not None:
            rooms.append(Room(limit, used))
    return min(rooms, key=lambda room: room.free, default=None)


def _folders(read: Read, controller: str) -> Iterator[str]:
    """Folders that may hold the controller's files, from the process's own group up to the root."""
    for line in (read("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names == "":  # version 2, alone or beside version 1
            mounts = [_ROOT, f"{_ROOT}/unified"]
        elif controller in names.split(","):
            mounts = [f"{_ROOT}/{names}", f"{_ROOT}/{controller}"]
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        for mount in dict.fromkeys(mounts):
            # Inside a container the path is often the host's and not to be found here: the root, last, is.
            for depth in range(len(parts), -1, -1):
                yield "/".join([mount, *parts[:depth]])


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isdigit() and int(text) < _UNLIMITED else None


def _droppable(stat: str) -> int:
    rows = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)
    return _number(rows.get("total_inactive_file") or rows.get("inactive_file")) or 0


def interfaces() -> dict[str, tuple[str, ...]]:
    """Network interfaces that are up, with their IP addresses."""
    stats = psutil.net_if_stats()
    kinds = (socket.AF_INET, socket.AF_INET6)
    return {
        name: tuple(address.address.partition("%")[0] for address in addresses if address.family in kinds)
        for name, addresses in psutil.net_if_addrs().items()
        if name not in stats or stats[name].isup
    }


def available_memory_bytes() -> int:
    """Memory that the machine can give, whatever a container allows."""
    return int(psutil.virtual_memory().available)


def free_memory_bytes() -> int:
    """Memory that this process can have: the machine's, or what the container still allows if that is less."""
    room = memory_room(read_text)
    return available_memory_bytes() if room is None else min(available_memory_bytes(), room.free)


def read_text(path: str) -> str | None:
    """A small file such as those in /proc and /sys, or None."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return None
