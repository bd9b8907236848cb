"""NCCL: one GPU for each rank. A call returns when it is enqueued, and only an abort ends a wait for the GPU.

A rank's environment must say what makes NCCL work on its GPU and what keeps its failures as evidence. All of it is decided
before the rank's process exists: torch and NCCL read these variables once, when CUDA or a communicator starts. Nothing here
imports torch or touches CUDA. docs/nccl.md says which of the reasons were read in torch's source and which were run.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..devices import Gpu
from ..errors import StartError
from .base import BACKENDS, Backend

SHARED_GPU_NCCL = (2, 30)  # the first that puts several ranks on one GPU
VERSION_TIMEOUT_S = 10.0

# Set whatever the user has set: recovery and the verdicts depend on these.
_FIXED: Mapping[str, str] = {
    # The watchdog of ProcessGroupNCCL notes an error or a timeout and does nothing else. With 1 or 3 it would abort the
    # process; with 1 or 2 the communicators, after which a stuck wait returns as if all were well. So the hang stays, is
    # diagnosed, and is ended by the rank's control thread.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    # nccl-legacy: a second thread ends the process if the watchdog has not run for minutes, as in a rank that was stopped
    # and continues.
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    # nccl-legacy: the watchdog would raise a CUDA error in its own thread, which ends the process. The main thread gets the
    # same error at its next CUDA call.
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
    # A blocking wait would abort the communicators at the group's timeout, and hide that NCCL's calls return when they are
    # enqueued.
    "TORCH_NCCL_BLOCKING_WAIT": "0",
    # No trace files in the temporary folder: the beacon and the control thread report a failure.
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_FR_DUMP_ON_TIMEOUT": "0",
    # The flight recorder stays on, for torch's own tools: as many calls as are the default.
    "TORCH_FR_BUFFER_SIZE": "2000",
}
# Good defaults on one host; what the user has set stays.
_PREFERRED: Mapping[str, str] = {
    # Its RAS service listens on one port of the host, so the worlds of several learners would share it.
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


class Nccl(Backend):
    """A wait that an abort ends returns as if all were well, with numbers that mean nothing."""

    name = "nccl"
    torch_names = ("nccl2", "nccl-legacy", "nccl-lazy")
    preference = 10
    needs_gpu = True
    interface_variable = "NCCL_SOCKET_IFNAME"
    returns_at_once = True
    uneven_lists = True
    release_wait_s = 3.0  # an abort has kernels to end on the GPU; not measured yet
    log_pattern = "nccl-{rank}.{pid}.log"

    def suits(self, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> bool:
        """Where each rank has its own GPU, or may share one."""
        return bool(gpus) and (num_ranks <= len(gpus) or share_gpu)

    def check(self, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> None:
        """The same, and an NCCL that can share a GPU if ranks do."""
        super().check(num_ranks, gpus, share_gpu)
        if shares_gpu(num_ranks, gpus):
            check_shared_gpu(nccl_version())

    def environment(self, rank: int, num_ranks: int, gpus: Sequence[Gpu], user: Mapping[str, str]) -> dict[str, str]:
        """One GPU, and what NCCL and torch must be told."""
        common = nccl_environment(num_ranks, len(gpus), share=shares_gpu(num_ranks, gpus), user=user)
        return common | super().environment(rank, num_ranks, gpus, user)

    def host_environment(self, host: int) -> dict[str, str]:
        """Read, not run: NCCL must take the ranks of one machine for those of several, connected by sockets only."""
        return super().host_environment(host) | {"NCCL_HOSTID": f"labkit-host-{host}", "NCCL_IB_DISABLE": "1"}


def nccl_environment(
    num_ranks: int, num_gpus: int, *, share: bool = False, user: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables that are the same for every nccl rank of a world; `share`: several ranks use one GPU.

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


def shares_gpu(num_ranks: int, gpus: Sequence[Gpu]) -> bool:
    """Whether several ranks use one GPU: more ranks than GPUs, or slices of GPUs, which NCCL knows by their GPU."""
    return num_ranks > len(gpus) or any(gpu.visible.startswith("MIG-") for gpu in gpus[:num_ranks])


def check_shared_gpu(version: tuple[int, int, int] | None) -> None:
    """StartError if this NCCL can't put several ranks on one GPU; an unknown version gets its chance.

    >>> check_shared_gpu((2, 30, 7))
    """
    if version is not None and version < SHARED_GPU_NCCL:
        has, needs = ".".join(map(str, version)), ".".join(map(str, SHARED_GPU_NCCL))
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


NCCL = BACKENDS.add(Nccl.name, Nccl())
