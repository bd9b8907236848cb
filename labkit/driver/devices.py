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
    """One GPU, or slice of one, that this process may use; `visible` is what CUDA_VISIBLE_DEVICES must say to pin it.

    `free_bytes` is 0 for a slice (MIG): nvidia-smi tells it for whole GPUs only.
    """

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
    """The GPUs of an nvidia-smi listing that CUDA_VISIBLE_DEVICES lets through, in its order and by CUDA's rules.

    An entry is a number, a UUID or its unambiguous beginning, or a MIG slice. CUDA ignores everything from
    the first unknown entry on, and gives nothing at all where one is named twice.

    >>> text = "0, GPU-aa, H200, 1000\\n1, GPU-bb, H200, 2000"
    >>> [gpu.visible for gpu in visible_gpus(text, "1,0")]
    ['1', '0']
    >>> [gpu.visible for gpu in visible_gpus(text, "GPU-b,MIG-cc")]
    ['GPU-bb', 'MIG-cc']
    >>> visible_gpus(text, ""), visible_gpus(text, "0,0")
    ([], [])
    """
    numbered: dict[str, Gpu] = {}
    named: dict[str, Gpu] = {}
    for line in listing.strip().splitlines():
        index, uuid, name, free_mib = (part.strip() for part in line.split(",", 3))
        free_bytes = int(float(free_mib)) * 2**20 if free_mib.replace(".", "", 1).isdigit() else 0
        numbered[index], named[uuid] = Gpu(index, name, free_bytes), Gpu(uuid, name, free_bytes)
    if visible is None:
        return list(numbered.values())
    chosen: list[Gpu] = []
    for item in (part.strip() for part in visible.split(",")):
        gpu = _find(item, numbered, named)
        if gpu is None:
            break
        if gpu in chosen:
            return []
        chosen.append(gpu)
    return chosen


def _find(item: str, numbered: dict[str, Gpu], named: dict[str, Gpu]) -> Gpu | None:
    """The GPU that one entry of CUDA_VISIBLE_DEVICES means, if it means one."""
    if item.startswith("MIG-"):  # nvidia-smi lists slices in another format; CUDA takes their names as they are
        return Gpu(item, "MIG slice", 0)
    if item.startswith("GPU-"):
        matches = [gpu for uuid, gpu in named.items() if uuid.startswith(item)]
        return matches[0] if len(matches) == 1 else None
    return numbered.get(item)


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
