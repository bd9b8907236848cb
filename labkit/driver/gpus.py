"""What a rank's environment must say so that NCCL works on its GPU and so that its failures stay evidence.

Everything here is decided before a rank's process exists: torch and NCCL read these variables once, when
CUDA or a communicator starts. Nothing here imports torch or touches CUDA. docs/nccl.md says which of the
reasons were read in torch's source and which were run.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ..devices import Gpu
from ..errors import StartError

SHARED_GPU_NCCL = (2, 30, 0)
VERSION_TIMEOUT_S = 10.0

# Ours whatever the user has set: the recovery ladder and the verdicts rest on these.
_FIXED: Mapping[str, str] = {
    # The watchdog of ProcessGroupNCCL notes an error or a timeout and does nothing: no abort of the process
    # (1, 3), no abort of the communicators either (1, 2), after which a stuck wait would end as if all were
    # well. The hang stays as it is, is diagnosed, and is ended by the rank's control thread.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    # nccl-legacy: a second thread ends the process when the watchdog stands still for minutes, as it does in
    # a rank that was stopped and goes on.
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    # nccl-legacy: a CUDA error that the watchdog meets is thrown in its thread, which ends the process; the
    # main thread gets the same error at its next CUDA call.
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
    # A wait on the host would abort the communicators at the group's timeout, and hide that NCCL returns
    # when a call is enqueued.
    "TORCH_NCCL_BLOCKING_WAIT": "0",
    # Failures are told by the beacon and the control thread; no trace files in the temporary folder.
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_FR_DUMP_ON_TIMEOUT": "0",
    # The flight recorder is evidence, so it may not be off: as many calls as are the default.
    "TORCH_FR_BUFFER_SIZE": "2000",
}
# Good defaults on one host; what the user has set stays.
_PREFERRED: Mapping[str, str] = {
    # Ranks of one host meet on loopback, also on a machine without a network.
    "NCCL_SOCKET_IFNAME": "lo",
    # Its RAS service listens on one port per host, so the worlds of several learners would meet there.
    "NCCL_RAS_ENABLE": "0",
}
# NCCL's log, which `world.nccl_log` reads; not if the user has asked for a log in any way. TUNING has the table and a line
# for each collective, on rank 0 alone: some 100 bytes. A C program that writes such lines as NCCL does took 4 to 5 µs for
# each on a shared machine; what it costs beside NCCL is for scripts/gpu-check to say ("call cost"). COLL is left out: a
# longer line for each call on every rank, which tells nothing of the choice.
_LOG: Mapping[str, str] = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING",
    "LABKIT_NCCL_LOG": "1",  # the rank names the file: only there the world's folder is known
}


def nccl_environment(
    num_ranks: int, num_gpus: int, *, share: bool = False, user: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of every nccl rank of a world; `share` says that ranks meet on one GPU.

    `user` is the environment the ranks inherit: a preference of ours gives way to it.

    >>> nccl_environment(2, 2)["TORCH_NCCL_ASYNC_ERROR_HANDLING"]
    '0'
    >>> nccl_environment(2, 2, user={"NCCL_DEBUG": "INFO"}).get("NCCL_DEBUG_SUBSYS")
    >>> nccl_environment(4, 2, share=True)["NCCL_MULTI_RANK_GPU_ENABLE"]
    '1'
    """
    env = dict(_FIXED)
    theirs = user or {}
    env.update((name, value) for name, value in _PREFERRED.items() if name not in theirs)
    if not theirs.keys() & {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}:
        env.update(_LOG)
    elif "NCCL_DEBUG" not in theirs:
        env["NCCL_DEBUG"] = "WARN"  # NCCL's own sentence about an error
    if share or num_ranks > num_gpus:
        per_gpu = -(-num_ranks // max(1, num_gpus))
        env |= {
            # NCCL refuses a second rank on a GPU unless asked; experimental, from 2.30.
            "NCCL_MULTI_RANK_GPU_ENABLE": "1",
            # NVLink SHARP can't serve two ranks of one device; if it was set to 1, NCCL would refuse to start.
            "NCCL_NVLS_ENABLE": "0",
            # All ranks' kernels must fit on the GPU at the same time, or they wait for each other for good.
            "NCCL_MAX_CTAS": "2" if per_gpu <= 8 else "1",
        }
    return env


def pin(gpu: Gpu, user: Mapping[str, str]) -> dict[str, str]:
    """The variables that leave a rank one GPU.

    CUDA numbers devices fastest first, nvidia-smi by bus; the order is set where the numbers are ours. A
    number that the user wrote into CUDA_VISIBLE_DEVICES means what it meant to the user.

    >>> pin(Gpu("1", "H200", 0), {})
    {'CUDA_VISIBLE_DEVICES': '1', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    >>> pin(Gpu("1", "H200", 0), {"CUDA_VISIBLE_DEVICES": "1,0"})
    {'CUDA_VISIBLE_DEVICES': '1'}
    """
    env = {"CUDA_VISIBLE_DEVICES": gpu.visible}
    if gpu.visible.isdigit() and not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & user.keys():
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return env


def shared(num_ranks: int, gpus: list[Gpu]) -> bool:
    """Whether ranks meet on one GPU: more ranks than GPUs, or slices of GPUs, which NCCL knows by their GPU."""
    return num_ranks > len(gpus) or any(gpu.visible.startswith("MIG-") for gpu in gpus[:num_ranks])


def check_shared_gpu(version: tuple[int, int, int] | None) -> None:
    """StartError if this NCCL can't put several ranks on one GPU; an unknown version gets its chance.

    >>> check_shared_gpu((2, 30, 7))
    """
    if version is not None and version < SHARED_GPU_NCCL:
        has, needs = ".".join(map(str, version)), ".".join(map(str, SHARED_GPU_NCCL[:2]))
        raise StartError(
            f"NCCL {has} puts one rank on a GPU; several need NCCL {needs}",
            hint='give one rank per GPU, or backend="gloo"',
            nccl=has,
        )


def parse_nccl_version(code: int) -> tuple[int, int, int]:
    """NCCL's version number as a tuple; before 2.9 it had one digit less.

    >>> parse_nccl_version(23007), parse_nccl_version(2708)
    ((2, 30, 7), (2, 7, 8))
    """
    major = 1000 if code < 10000 else 10000
    return code // major, code % major // 100, code % 100


@functools.cache
def nccl_version() -> tuple[int, int, int] | None:
    """The version of the NCCL that torch will load, asked of the library itself in a process of its own."""
    path = find_nccl()
    if path is None:
        return None
    ask = "import ctypes, sys; v = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v)); print(v.value)"
    try:
        text = subprocess.run(
            [sys.executable, "-c", ask, path], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=True
        ).stdout
        return parse_nccl_version(int(text))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def find_nccl() -> str | None:
    """The libnccl of NVIDIA's wheel, to which torch's wheel is linked, else the system's by its name."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = sorted((Path(folder) / "lib").glob("libnccl.so*"))
        if found:
            return str(found[0])
    return "libnccl.so.2" if sys.platform.startswith("linux") else None
