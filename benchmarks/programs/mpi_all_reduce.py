"""MPI's all-reduce over sizes, as a program of its own: `mpiexec -n 4 python -m benchmarks.programs.mpi_all_reduce`.

It prints what an OSU benchmark prints, so that `labkit bench --beside FILE` can lay it beside ours; with `--json` it
writes every round's seconds into a file, which is there whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FLOAT_BYTES = 4
SIZES = tuple(1024 * 4**power for power in range(9))  # 1 KiB to 64 MiB


def check(mpi: Any, world: Any) -> None:
    """One all-reduce whose result is known."""
    tensor = np.full(4, world.rank + 1, dtype=np.float32)
    world.Allreduce(mpi.IN_PLACE, tensor)
    assert tensor.tolist() == [world.size * (world.size + 1) / 2] * 4, tensor


def seconds(mpi: Any, world: Any, num_bytes: int, rounds: int) -> list[float]:
    """Seconds of each round, from when the last rank was ready until the last one was through; the first doesn't count."""
    tensor = np.zeros(num_bytes // FLOAT_BYTES, dtype=np.float32)
    spans = np.zeros((rounds + 1, 2))
    for span in spans:
        world.Barrier()
        span[0] = time.monotonic()
        world.Allreduce(mpi.IN_PLACE, tensor)
        span[1] = time.monotonic()
    world.Allreduce(mpi.IN_PLACE, spans, mpi.MAX)
    return [float(end - began) for began, end in spans[1:]]


def osu_text(times_s: dict[int, list[float]], ranks: int, library: str) -> str:
    """The layout of an OSU latency test; what the columns hold is said below the title.

    >>> print(osu_text({1024: [2e-6, 1e-6, 4e-6]}, 4, "MPICH 5.0.2"))
    # OSU MPI Allreduce Latency Test (its layout; labkit's measurement)
    # MPICH 5.0.2, 4 ranks on one machine, float32, sum; median, least and greatest of the rounds
    # Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
    1024                    2.00              1.00              4.00           3
    """
    lines = [
        "# OSU MPI Allreduce Latency Test (its layout; labkit's measurement)",
        f"# {library}, {ranks} ranks on one machine, float32, sum; median, least and greatest of the rounds",
        "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
    ]
    for num_bytes, taken in times_s.items():
        middle, low, high = (1e6 * value for value in (statistics.median(taken), min(taken), max(taken)))
        lines.append(f"{num_bytes:<12}{middle:>16.2f}{low:>18.2f}{high:>18.2f}{len(taken):>12}")
    return "\n".join(lines)


def write_whole(path: Path, text: str) -> None:
    """Into a file that is there whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mpiexec -n 4 python -m benchmarks.programs.mpi_all_reduce", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="default: 1 KiB to 64 MiB")
    parser.add_argument("--rounds", type=int, nargs="+", default=[7], metavar="N", help="of all sizes, or of each (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's seconds here and print nothing")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    rounds = options.rounds * (len(options.sizes) if len(options.rounds) == 1 else 1)
    from mpi4py import MPI  # joins the others: not before the arguments are known to be right

    world = MPI.COMM_WORLD
    check(MPI, world)
    times_s = {size: seconds(MPI, world, size, number) for size, number in zip(options.sizes, rounds, strict=True)}
    if world.rank:
        return
    name, version = MPI.get_vendor()
    library = f"{name} {'.'.join(map(str, version))}"
    if options.json:
        write_whole(options.json, json.dumps({"library": library, "ranks": world.size, "times_s": times_s}))
    else:
        print(osu_text(times_s, world.size, library))


if __name__ == "__main__":
    main()
