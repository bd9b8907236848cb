"""The machine's GPUs, as nvidia-smi lists them: found without torch and without touching CUDA."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

QUERY_TIMEOUT_S = 10.0
_FIELDS = "index,uuid,name,memory.total,memory.free,compute_mode,driver_version"


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one slice of a GPU (MIG); `visible` is what CUDA_VISIBLE_DEVICES must say to pin a rank to it.

    Bytes are 0 where nvidia-smi does not tell them: it tells the memory of whole GPUs only.
    """

    visible: str
    name: str
    free_bytes: int = 0
    uuid: str = ""
    total_bytes: int = 0
    compute_mode: str = "Default"


@dataclass(frozen=True)
class GpuListing:
    """All GPUs of the machine and the driver's version; `error` if nvidia-smi is there and fails."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    error: str = ""
    has_tool: bool = False


def list_gpus(env: Mapping[str, str] | None = None) -> GpuListing:
    """What nvidia-smi says now, whatever CUDA_VISIBLE_DEVICES says; no GPU and no error where there is no nvidia-smi."""
    env = os.environ if env is None else env
    tool = shutil.which("nvidia-smi", path=env.get("PATH"))
    if tool is None:
        return GpuListing()
    command = [tool, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, env=dict(env), check=False)
    except subprocess.TimeoutExpired:
        return GpuListing(error=f"nvidia-smi did not answer within {QUERY_TIMEOUT_S:.0f} s", has_tool=True)
    except OSError as error:
        return GpuListing(error=f"nvidia-smi: {error.strerror}", has_tool=True)
    if done.returncode:  # nvidia-smi writes its complaints to standard output
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return GpuListing(error=f"nvidia-smi: {(said or [f'exit code {done.returncode}'])[0][:200]}", has_tool=True)
    return parse_listing(done.stdout)


def parse_listing(text: str) -> GpuListing:
    """The answer of nvidia-smi --query-gpu in CSV; fields it does not know read "[N/A]".

    >>> parse_listing("0, GPU-5a, NVIDIA H200, 143771, 143000, Default, 580.65.06").driver
    '580.65.06'
    """
    gpus, driver = [], ""
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 7 and fields[0].isdigit():
            index, uuid, name, *mib, mode, version = fields
            total, free = (int(one) * 2**20 if one.isdigit() else 0 for one in mib)
            gpus.append(Gpu(index, name, free, uuid, total, mode))
            driver = version if re.fullmatch(r"[\d.]+", version) else driver
    return GpuListing(tuple(gpus), driver, has_tool=True)


def find_gpus(env: Mapping[str, str] | None = None) -> list[Gpu]:
    """The GPUs that this process may use, in the order of CUDA_VISIBLE_DEVICES; none where there is no driver."""
    env = os.environ if env is None else env
    return visible_gpus(list_gpus(env).gpus, env.get("CUDA_VISIBLE_DEVICES"))


def visible_gpus(gpus: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES lets through, in its order and by CUDA's rules.

    An entry is a number, a UUID or its unambiguous beginning, or a MIG slice. CUDA ignores everything from
    the first unknown entry on, and gives nothing at all where one is named twice.

    >>> gpus = [Gpu("0", "H200", uuid="GPU-aa"), Gpu("1", "H200", uuid="GPU-bb")]
    >>> [gpu.visible for gpu in visible_gpus(gpus, "1,0")]
    ['1', '0']
    >>> [gpu.visible for gpu in visible_gpus(gpus, "GPU-b,MIG-cc")]
    ['GPU-bb', 'MIG-cc']
    >>> visible_gpus(gpus, ""), visible_gpus(gpus, "0,0")
    ([], [])
    """
    if visible is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        gpu = named_gpu(entry, gpus)
        if gpu is None:
            break
        if gpu in chosen:
            return []
        chosen.append(gpu)
    return chosen


def named_gpu(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU that one entry of CUDA_VISIBLE_DEVICES means, if it means one; a MIG slice is believed as it is written.

    >>> named_gpu("GPU-", [Gpu("0", "H200", uuid="GPU-aa"), Gpu("1", "H200", uuid="GPU-bb")])
    """
    if entry.startswith("MIG-"):  # nvidia-smi lists slices in another format; CUDA takes their names as they are
        return Gpu(entry, "MIG slice")
    if entry.startswith("GPU-"):
        matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        return replace(matches[0], visible=matches[0].uuid) if len(matches) == 1 else None
    return next((gpu for gpu in gpus if gpu.visible == entry), None)
