"""Do the process limits leave room: open files, processes, locked memory?"""

from __future__ import annotations

from pathlib import Path

from .. import cgroup
from ..base import Context, Finding, check, worst
from ..system import read_text

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
    group: cgroup.Room | None = None,
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
def run(context: Context) -> Finding:
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
    return judge_limits(files, processes, locked, context.ranks, rdma=rdma, group=cgroup.processes(read_text))
