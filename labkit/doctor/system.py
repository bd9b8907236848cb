"""Small questions to the operating system; the one place of the doctor that imports psutil."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import psutil


def create_times(pids: Iterable[int]) -> dict[int, float]:
    """When each of our own living processes among `pids` was created, in seconds since the epoch.

    Left out: pids that are free, zombies (nothing of them runs), and processes of another user.
    """
    mine = user_id()
    found = {}
    for pid in set(pids):
        with contextlib.suppress(psutil.Error, ValueError, OverflowError):
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE or (mine is not None and process.uids().real != mine):
                    continue
                found[pid] = float(process.create_time())
    return found


def user_id() -> int | None:
    """Our user number, or None on a system without them."""
    return os.getuid() if hasattr(os, "getuid") else None


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
    return int(psutil.virtual_memory().available)


def read_text(path: str) -> str | None:
    """A small file such as those in /proc and /sys, or None."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return None
