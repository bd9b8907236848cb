"""MPI's all-reduce beside ours: where it is installed, one run of it under `mpiexec`, with a deadline."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .bench import PROGRAMS, Bench
from .core import BenchError

ABSENT = "MPI isn't installed: `make bench` does that, or `scripts/setup bench` alone; all else goes on without it"


@dataclass(frozen=True)
class MpiRun:
    """What one run of the program found: which MPI it was, and seconds of each round by size in bytes."""

    library: str
    times_s: dict[int, list[float]]


def mpiexec() -> Path | None:
    """The launcher that belongs to this Python's own MPI; None where MPI is not installed."""
    path = Path(sys.executable).parent / "mpiexec"
    return path if path.exists() and importlib.util.find_spec("mpi4py") is not None else None


def all_reduces(bench: Bench, launcher: Path, ranks: int, rounds: Mapping[int, int], limit_s: float) -> MpiRun:
    """All-reduces of each size in `rounds` that many times, in a world of MPI's own that ends before this returns."""
    result = bench.folder / "mpi.json"
    result.unlink(missing_ok=True)
    sizes = ["--sizes", *map(str, rounds), "--rounds", *map(str, rounds.values())]
    program = [sys.executable, "-m", f"{PROGRAMS}.mpi_all_reduce", *sizes, "--json", str(result)]
    done = bench.complete("mpi", [str(launcher), "-n", str(ranks), *program], limit_s)
    if done.status or not result.exists():
        raise BenchError(f"MPI's program ended with {done.status}; its last words: {done.last_words}")
    found = json.loads(result.read_text())
    return MpiRun(found["library"], {int(size): times for size, times in found["times_s"].items()})
