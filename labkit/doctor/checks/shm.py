"""Is /dev/shm large enough? Docker gives 64 MB unless asked, and NCCL then fails in odd ways."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ...units import format_bytes
from ..base import Context, Finding, check

PATH = "/dev/shm"  # noqa: S108 - looked at, never written to
SMALL_BYTES = 512 * 2**20
LEAST_FREE_BYTES = 64 * 2**20


def judge_shm(size_bytes: int | None, free_bytes: int, writable: bool, platform: str = "linux") -> Finding:
    """`size_bytes` is None where there is no /dev/shm."""
    facts = {"size_bytes": size_bytes, "free_bytes": free_bytes, "writable": writable}
    if size_bytes is None:
        if platform != "linux":
            return Finding("ok", "not used on this system", facts=facts)
        return Finding("fail", f"there is no {PATH}", "mount a tmpfs there; in a container give --shm-size=1g", facts)
    if not writable:
        return Finding("fail", f"{PATH} is not writable", f"give it mode 1777 (chmod 1777 {PATH}, as administrator)", facts)
    text = f"{format_bytes(free_bytes)} free of {format_bytes(size_bytes)}"
    if size_bytes < SMALL_BYTES:
        step = "start the container with --shm-size=1g"
        return Finding("warn", f"{text} in {PATH}: too little for NCCL and data loaders", step, facts)
    if free_bytes < LEAST_FREE_BYTES:
        return Finding("warn", f"only {text} in {PATH}", f"look for leftovers with ls -l {PATH}", facts)
    return Finding("ok", text, facts=facts)


@check("shm", "Shared memory", order=32)
def run(context: Context) -> Finding:
    if not Path(PATH).is_dir():
        return judge_shm(None, 0, False, sys.platform)
    stats = os.statvfs(PATH)
    return judge_shm(stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize, os.access(PATH, os.W_OK | os.X_OK))
