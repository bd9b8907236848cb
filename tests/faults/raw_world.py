"""A bare world for fault tests: forked ranks on gloo, a tap of a few lines, and a deadline.

Run as a script it prints one JSON line per job given on stdin, a job being [name, rank or null, params, ranks].
It knows nothing of labkit beyond the faults, so that what it shows is gloo's doing and the fault's.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from labkit.faults import FAULTS, Interceptor, LeaveCell

TAPPED = (
    "all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter reduce_scatter_tensor "
    "all_to_all all_to_all_single barrier send recv isend irecv new_group"
).split()


@dataclasses.dataclass
class Pending:
    """The tap's PendingCall, as the architecture describes it."""

    op: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    site: Any = None
    number: int = 1
    cell: int = 1


@dataclasses.dataclass
class FileContext:
    """Notes every firing as one byte in a file, which a killed process leaves behind."""

    rank: int
    world_size: int
    path: Path

    def fired(self) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(b"x")


def run_source(source: str, scope: dict[str, Any]) -> Any:
    """Run a cell; the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell 1", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "cell 1", "eval"), scope) if isinstance(last, ast.Expr) else None


def install(interceptor: Interceptor) -> None:
    """Wrap the functions of torch.distributed so that the interceptor sees every call."""
    import torch.distributed as dist

    count = [0]

    def wrap(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def tapped(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            call = Pending(name, args, kwargs, number=count[0])
            return interceptor.around(call, lambda issued: original(*issued.args, **issued.kwargs))

        return tapped

    for name in TAPPED:
        setattr(dist, name, wrap(name, getattr(dist, name)))


def rank_main(rank: int, ranks: int, source: str, fault: str | None, params: dict[str, Any], folder: Path) -> None:
    """One rank: run the cell and leave a report."""
    import torch
    import torch.distributed as dist

    store = dist.FileStore(str(folder / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=30))
    dist.barrier()
    interceptor = Interceptor()
    if fault is not None:
        interceptor = FAULTS[fault].arm(FileContext(rank, ranks, folder / "fired"), **params)
    install(interceptor)
    (folder / f"ready{rank}").touch()
    report: dict[str, Any] = {"ending": "ok"}
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            report["value"] = run_source(source, {"rank": rank, "world_size": ranks, "torch": torch, "dist": dist})
            interceptor.end_of_cell()
    except LeaveCell:
        report["ending"] = "left"
    except Exception as error:
        report.update(ending="raised", error=f"{type(error).__name__}: {error}")
    report["output"] = out.getvalue()
    temporary = folder / f"part{rank}"
    temporary.write_text(json.dumps(report))
    temporary.rename(folder / f"report{rank}")
    time.sleep(60)  # stay, as a rank in a notebook does; the parent ends it


def run(source: str, fault: str | None, culprit: int | None, params: dict[str, Any], ranks: int, wait_s: float) -> dict[str, Any]:
    """What each rank came to within `wait_s`; every process is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pids: dict[int, int] = {}
        for rank in range(ranks):
            pid = os.fork()
            if pid == 0:
                quiet = os.open(os.devnull, os.O_WRONLY)
                os.dup2(quiet, 2)
                try:
                    rank_main(rank, ranks, source, fault if rank == culprit else None, params, folder)
                finally:
                    os._exit(0)
            pids[rank] = pid
        endings: dict[int, dict[str, Any]] = {}
        limit = time.monotonic() + 20
        while time.monotonic() < limit and len(list(folder.glob("ready*"))) < ranks:
            time.sleep(0.01)
        limit = time.monotonic() + wait_s
        while time.monotonic() < limit and len(endings) < ranks:
            for rank, pid in pids.items():
                if rank in endings:
                    continue
                if (folder / f"report{rank}").exists():
                    endings[rank] = json.loads((folder / f"report{rank}").read_text())
                elif os.waitpid(pid, os.WNOHANG | os.WUNTRACED)[0]:
                    endings[rank] = {"ending": "dead"}
            time.sleep(0.01)
        died = {}
        for rank, pid in pids.items():
            state = (
                Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] if Path(f"/proc/{pid}").exists() else "gone"
            )
            died[rank] = state
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        fired = (folder / "fired").stat().st_size if (folder / "fired").exists() else 0
    shown = [endings.get(rank, {"ending": "waits"}) for rank in range(ranks)]
    for rank, state in died.items():
        if state in "TZ" or state == "gone":
            shown[rank] = {"ending": {"T": "stopped"}.get(state, "dead")}
    return {"fault": fault, "culprit": culprit, "params": params, "fired": fired, "ranks": shown}


def main() -> None:
    importlib.import_module("torch.distributed")  # takes a second: once, before the forks
    for line in sys.stdin:
        name, culprit, params, ranks = json.loads(line)
        fault = FAULTS[name]
        armed = name if culprit is not None else None
        print(json.dumps(run(fault.demo, armed, culprit, params, ranks, 2.0)), flush=True)


if __name__ == "__main__":
    main()
