"""CPUs, memory, shared memory and process limits for the ranks, and whether py-spy may read the stack of a rank."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from ...machine import (
    IMPORTED_RANK_BYTES,
    RANK_BYTES,
    Room,
    available_memory_bytes,
    cpu_quota,
    memory_room,
    process_room,
    read_text,
)
from ...units import format_bytes
from ..base import Context, Finding, check, worst
from ..facts import Probe, ask, python


# ---- cpus
def judge_cpus(usable: int, quota: float | None, ranks: int) -> Finding:
    """`usable`: CPUs this process may run on; `quota`: CPUs' worth of time its container may use."""
    cpus = min(float(usable), quota) if quota is not None else float(usable)
    facts = {"usable": usable, "quota": quota, "cpus": cpus}
    text = f"{cpus:g} CPU{'s' * (cpus != 1)} for {ranks} rank{'s' * (ranks != 1)}"
    if ranks > 8 * cpus:
        step = f"use at most {max(2, int(4 * cpus))} ranks"
        return Finding("warn", f"{text}: starts and collectives will be slow", step, facts)
    if ranks > cpus:
        return Finding("note", f"{text}: it works, but timings measure the scheduler too", facts=facts)
    return Finding("ok", text, facts=facts)


@check("cpus", "CPUs", order=31)
def check_cpus(context: Context) -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return judge_cpus(usable, cpu_quota(read_text), context.ranks)


# ---- memory


def judge_memory(available_bytes: int, group: Room | None, ranks: int) -> Finding:
    free = available_bytes if group is None else min(available_bytes, group.free)
    limit = group.limit if group is not None else None
    where = f"of the container's {format_bytes(limit)}" if limit is not None and free < available_bytes else "on this machine"
    facts = {"free_bytes": free, "available_bytes": available_bytes, "limit_bytes": limit, "per_rank_bytes": free // ranks}
    text = f"{format_bytes(free)} free {where}, {format_bytes(free // ranks)} for each of {ranks}"
    step = f"use at most {max(1, free // IMPORTED_RANK_BYTES)} ranks, close other programs, or raise the container's --memory"
    if free < RANK_BYTES * ranks:
        return Finding(
            "fail", f"{text}; a rank needs {format_bytes(RANK_BYTES)} to {format_bytes(IMPORTED_RANK_BYTES)}", step, facts
        )
    if free < IMPORTED_RANK_BYTES * ranks:
        return Finding("warn", f"{text}; a rank needs up to {format_bytes(IMPORTED_RANK_BYTES)}", step, facts)
    return Finding("ok", text, facts=facts)


@check("memory", "Memory", order=30)
def check_memory(context: Context) -> Finding:
    return judge_memory(available_memory_bytes(), memory_room(read_text), context.ranks)


# ---- shm
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
def check_shm(context: Context) -> Finding:
    if not Path(PATH).is_dir():
        return judge_shm(None, 0, False, sys.platform)
    stats = os.statvfs(PATH)
    return judge_shm(stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize, os.access(PATH, os.W_OK | os.X_OK))


# ---- limits
LEAST_FILES, USUAL_FILES = 256, 1024
THREADS_PER_RANK = 32  # torch's, gloo's and the engine's own; a process counts by its threads
HOUSE_THREADS = 128  # kernel, controller, fork server


def judge_limits(
    files: int | None,
    processes: int | None,
    locked_bytes: int | None,
    ranks: int,
    *,
    rdma: bool,
    group: Room | None = None,
) -> Finding:
    """Soft limits, None for unlimited; `rdma`: the machine has InfiniBand devices; `group`: the container's process limit."""
    facts = {
        "nofile": files,
        "nproc": processes,
        "memlock_bytes": locked_bytes,
        "rdma": rdma,
        "pids_limit": group.limit if group else None,
    }
    found = []
    need_files = max(USUAL_FILES, HOUSE_THREADS + ranks * (ranks + 32))
    if files is not None and files < need_files:
        step = f"ulimit -n {max(4096, need_files)} before starting the notebook"
        found.append(Finding("fail" if files < LEAST_FILES else "warn", f"only {files} open files", step))
    need = HOUSE_THREADS + THREADS_PER_RANK * ranks
    if processes is not None and processes < need:
        text = f"only {processes} processes, about {need} are needed"
        found.append(Finding("warn", text, "ulimit -u 4096, or docker --ulimit nproc=4096"))
    if group is not None and group.free < need:
        text = f"the container may start only {group.free} more processes, about {need} are needed"
        found.append(Finding("warn", text, "start it with --pids-limit 4096"))
    if rdma and locked_bytes is not None:
        text = f"only {locked_bytes // 2**20} MiB may be locked: NCCL over InfiniBand fails"
        found.append(Finding("warn", text, "ulimit -l unlimited, or docker --ulimit memlock=-1"))
    text = f"{_named(files)} open files, {_named(processes)} processes"
    return worst(found, Finding("ok", text, facts=facts))


def _named(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


@check("limits", "Process limits", order=33)
def check_limits(context: Context) -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("note", "this system has no process limits")

    def soft(name: str) -> int | None:
        kind = getattr(resource, name, None)
        value = resource.RLIM_INFINITY if kind is None else resource.getrlimit(kind)[0]
        return None if value == resource.RLIM_INFINITY else int(value)

    devices = Path("/sys/class/infiniband")
    rdma = devices.is_dir() and any(devices.iterdir())
    files, processes, locked = (soft(name) for name in ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_MEMLOCK"))
    return judge_limits(files, processes, locked, context.ranks, rdma=rdma, group=process_room(read_text))


_SLEEPER = "import time; time.sleep(20)"
_TRY_S = 4.0


def judge_ptrace(found: bool, worked: bool, said: str, scope: str, platform: str = "linux") -> Finding:
    """`worked`: py-spy printed a stack; `scope`: the kernel's ptrace_scope, "" where there is none."""
    facts = {"found": found, "worked": worked, "ptrace_scope": scope}
    without = "stacks then come from the rank's own helper thread only"
    if not found:
        return Finding("note", f"py-spy is not installed; {without}", "uv pip install py-spy", facts)
    if worked:
        return Finding("ok", "py-spy can read the stack of a stuck rank", facts=facts)
    if platform == "darwin":
        return Finding("note", f"py-spy needs sudo on this system; {without}", facts=facts)
    if scope not in ("", "0"):
        step = "sysctl kernel.yama.ptrace_scope=0, or start the container with --cap-add SYS_PTRACE"
        return Finding("note", f"the kernel forbids py-spy (ptrace_scope {scope}); {without}", step, facts)
    step = "start the container with --cap-add SYS_PTRACE"
    return Finding("note", f"py-spy could not read a stack ({said}); {without}", step, facts)


def _find() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


@check("ptrace", "Stacks from outside", order=51, deadline_s=12)
def run(context: Context) -> Finding:
    tool, scope = _find(), (read_text("/proc/sys/kernel/yama/ptrace_scope") or "").strip()
    if tool is None:
        return judge_ptrace(False, False, "", scope, sys.platform)
    child = Probe(python(_SLEEPER), context.env)
    try:
        until, said = time.monotonic() + _TRY_S, ""
        while True:  # py-spy can make nothing of an interpreter that is just starting: once more
            answer = ask([tool, "dump", "--pid", str(child.pid)], context.env, _TRY_S, context.stop)
            said = answer.complaint()
            if answer.code == 0 and "\nThread " in answer.out:
                return judge_ptrace(True, True, "", scope, sys.platform)
            if time.monotonic() > until or context.stop.is_set() or "ermission" in answer.err:
                return judge_ptrace(True, False, said, scope, sys.platform)
            time.sleep(0.2)
    finally:
        child.end()
