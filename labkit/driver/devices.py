"""The machine's GPUs, CPUs and memory, found without torch and without touching CUDA."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

QUERY_TIMEOUT_S = 10.0
RANK_BYTES = 160 * 2**20  # what a forked rank takes of its own; measured by `make bench`


@dataclass(frozen=True)
class Gpu:
    """One GPU that this process may use; `visible` is what CUDA_VISIBLE_DEVICES must say to pin it."""

    visible: str
    name: str
    free_bytes: int


def find_gpus(env: dict[str, str] | None = None) -> list[Gpu]:
    """The GPUs, in the order of CUDA_VISIBLE_DEVICES; none where there is no driver."""
    env = dict(os.environ) if env is None else env
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        text = subprocess.run(
            [tool, "--query-gpu=index,uuid,name,memory.free", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return visible_gpus(text, env.get("CUDA_VISIBLE_DEVICES"))


def visible_gpus(listing: str, visible: str | None) -> list[Gpu]:
    """The GPUs of an nvidia-smi listing that CUDA_VISIBLE_DEVICES lets through, in its order.

    >>> text = "0, GPU-aa, H200, 1000\\n1, GPU-bb, H200, 2000"
    >>> [gpu.visible for gpu in visible_gpus(text, "1,0")]
    ['1', '0']
    >>> visible_gpus(text, "")
    []
    """
    found: dict[str, Gpu] = {}
    for line in listing.strip().splitlines():
        index, uuid, name, free_mib = (part.strip() for part in line.split(",", 3))
        gpu = Gpu(index, name, int(float(free_mib)) * 2**20)
        found[index] = gpu
        found[uuid] = Gpu(uuid, name, gpu.free_bytes)
    if visible is None:
        return [gpu for key, gpu in found.items() if key == gpu.visible and key.isdigit()]
    chosen: list[Gpu] = []
    for item in filter(None, (part.strip() for part in visible.split(","))):
        match = next((key for key in found if key == item or (item.startswith("GPU-") and key.startswith(item))), None)
        if match is None:  # CUDA ignores everything from the first unknown one on
            break
        chosen.append(found[match])
    return chosen


def free_memory_bytes() -> int:
    """Free memory, or what the container still allows if that is less."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            allowed = int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue
        free = min(free, max(0, allowed))
    return free
