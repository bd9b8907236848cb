"""What a container allows: memory, CPUs and processes, by cgroup version 1 and 2.

The machine's own numbers mislead inside a container: it may show 64 GiB free while the container is
killed at 2. A group's limit holds for all groups below it, so every level up to the root is read, and
the tightest wins. `read` returns the text of a file or None, so that tests bring their own files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

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


def memory(read: Read) -> Room | None:
    """The tightest memory limit, or None. Page cache that the kernel can drop counts as free."""
    rooms = []
    for folder in _folders(read, "memory"):
        limit = _number(read(f"{folder}/memory.max") or read(f"{folder}/memory.limit_in_bytes"))
        used = _number(read(f"{folder}/memory.current") or read(f"{folder}/memory.usage_in_bytes"))
        if limit is not None and used is not None:
            rooms.append(Room(limit, max(0, used - _droppable(read(f"{folder}/memory.stat") or ""))))
    return min(rooms, key=lambda room: room.free, default=None)


def cpus(read: Read) -> float | None:
    """How many CPUs' worth of time the group may use, or None."""
    shares = []
    for folder in _folders(read, "cpu"):
        quota, _, period = (read(f"{folder}/cpu.max") or "").strip().partition(" ")
        quota = quota or (read(f"{folder}/cpu.cfs_quota_us") or "").strip()
        period = period or (read(f"{folder}/cpu.cfs_period_us") or "").strip()
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            shares.append(int(quota) / int(period))
    return min(shares, default=None)


def processes(read: Read) -> Room | None:
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
