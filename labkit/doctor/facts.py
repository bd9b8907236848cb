"""Facts that several checks rest on: what torch says of itself, and what the GPUs say."""

from __future__ import annotations

import dataclasses
import re
import shutil
import threading
from collections.abc import Mapping

from .base import Context
from .probe import ask, python

TORCH_DEADLINE_S = 45.0  # a first import from a cold disk takes long; it is not a defect
_SMI_DEADLINE_S = 10.0

_TORCH_SOURCE = """
import json, time
began = time.perf_counter()
import torch
took = time.perf_counter() - began
import torch.distributed as dist
here = dist.is_available()
facts = {
    "version": str(torch.__version__), "cuda": torch.version.cuda or "", "import_s": round(took, 3),
    "gloo": here and dist.is_gloo_available(), "nccl": here and dist.is_nccl_available(), "nccl_version": [], "devices": 0,
}
try:
    facts["nccl_version"] = list(torch.cuda.nccl.version())
except Exception:
    pass
try:
    facts["devices"] = torch.cuda.device_count()
except Exception as error:
    facts["devices_error"] = f"{type(error).__name__}: {error}"[:200]
print(json.dumps(facts))
"""


@dataclasses.dataclass(frozen=True)
class TorchFacts:
    """What a process that imported torch reported; `error` if none did."""

    version: str = ""
    cuda: str = ""
    nccl: tuple[int, ...] = ()
    has_gloo: bool = False
    has_nccl: bool = False
    devices: int = 0
    import_s: float = 0.0
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi; memory in bytes, 0 where it is not told."""

    index: int
    uuid: str
    name: str
    total_bytes: int = 0
    free_bytes: int = 0
    compute_mode: str = "Default"


@dataclasses.dataclass(frozen=True)
class GpuFacts:
    """All GPUs of the machine and the driver's version; `error` if nvidia-smi is there and fails."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    error: str = ""
    has_tool: bool = False


def torch_facts(context: Context) -> TorchFacts:
    """Asked once per visit, of a process of its own."""
    return context.shared("torch", lambda: _ask_torch(context))


def _ask_torch(context: Context) -> TorchFacts:
    answer = ask(python(_TORCH_SOURCE), context.env, TORCH_DEADLINE_S - 2, context.stop)
    facts = answer.json()
    if answer.late:
        return TorchFacts(error=f"import torch did not finish within {answer.elapsed_s:.0f} s")
    if facts is None or answer.code:
        return TorchFacts(error=answer.complaint())
    return TorchFacts(
        facts["version"],
        facts["cuda"],
        tuple(facts["nccl_version"]),
        bool(facts["gloo"]),
        bool(facts["nccl"]),
        int(facts["devices"]),
        float(facts["import_s"]),
    )


def gpu_facts(context: Context) -> GpuFacts:
    """Asked once per visit, of nvidia-smi; the machine's GPUs whatever CUDA_VISIBLE_DEVICES says."""
    return context.shared("gpus", lambda: ask_smi(context.env, context.stop))


_FIELDS = "index,uuid,name,memory.total,memory.free,compute_mode,driver_version"


def ask_smi(env: Mapping[str, str], stop: threading.Event) -> GpuFacts:
    """What nvidia-smi says now; no GPUs and no error where there is no nvidia-smi."""
    tool = shutil.which("nvidia-smi", path=env.get("PATH"))
    if tool is None:
        return GpuFacts()
    answer = ask([tool, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"], env, _SMI_DEADLINE_S, stop)
    if answer.late:
        return GpuFacts(error=f"nvidia-smi did not answer within {answer.elapsed_s:.0f} s", has_tool=True)
    if answer.code:
        # nvidia-smi writes its complaints to standard output
        said = [line.strip() for line in (answer.out + answer.err).splitlines() if line.strip()]
        return GpuFacts(error=f"nvidia-smi: {(said or [f'exit code {answer.code}'])[0][:200]}", has_tool=True)
    return parse_smi(answer.out)


def parse_smi(text: str) -> GpuFacts:
    """The answer of nvidia-smi --query-gpu in CSV; fields it does not know read "[N/A]".

    >>> parse_smi("0, GPU-5a, NVIDIA H200, 143771, 143000, Default, 580.65.06").driver
    '580.65.06'
    """
    gpus, driver = [], ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 7 and cells[0].isdigit():
            total, free = (int(cell) * 2**20 if cell.isdigit() else 0 for cell in cells[3:5])
            gpus.append(Gpu(int(cells[0]), cells[1], cells[2], total, free, cells[5]))
            driver = cells[6] if re.fullmatch(r"[\d.]+", cells[6]) else driver
    return GpuFacts(tuple(gpus), driver, has_tool=True)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> numbers("2.15.0+cu132"), numbers("13.2"), numbers("9.2.0rc1")
    ((2, 15, 0), (13, 2), (9, 2, 0))
    """
    found = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()
