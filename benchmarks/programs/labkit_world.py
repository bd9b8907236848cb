"""A kernel with a labkit world: told on the channel when the first all-reduce is done, then serves the measures."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

ENTERED_S = time.monotonic()

import labkit  # noqa: E402
from benchmarks.channel import Channel  # noqa: E402
from benchmarks.programs import _faults, _phases, _tap, _twin, _views  # noqa: E402

FIRST = "x = torch.full((4,), float(rank + 1)); dist.all_reduce(x); x[0].item()"


OPS = ("start", "warm", "end", "cells", "all_reduces", "tap", "mode", "fault", "memory", "picture", "watched")
OPS += ("hold", "burst", "twins_bytes", "killed")


class Ops:
    """What the bench may ask of the world."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.world: Any = None
        self.phases = _phases.Phases(ENTERED_S)

    def start(self) -> dict[str, Any]:
        """Start the world and do the first all-reduce; how long, and in which phases."""
        began = time.monotonic()
        with self.phases.timing():
            options = self._arguments
            self.world = labkit.start(
                ranks=options.ranks, backend="gloo", launcher=options.launcher, mode=options.mode, group_timeout_s=600.0
            )
            with self.phases.phase("first cell"):
                result = self.world.run_cell(FIRST)
        assert result.ok, result
        shown = {outcome.shown.text for outcome in result.outcomes}
        assert shown == {str(self.world.world_size * (self.world.world_size + 1) / 2)}, shown
        return {"elapsed_s": time.monotonic() - began, "phases": self.phases.taken}

    def warm(self) -> None:
        """Bring the fork server up and wait until it has torch."""
        from labkit.driver.current import HOLDER, warm

        warm()
        HOLDER.server().ready.result(60)

    def end(self) -> None:
        """Stop the world; the fork server stays."""
        self.world.stop()

    def cells(self, count: int) -> list[float]:
        """Seconds of each of `count` empty cells."""
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            self.world.run_cell("")
            taken.append(time.perf_counter() - began)
        return taken

    def all_reduces(self, numel: int, count: int) -> float:
        """Seconds that `count` all-reduces take on rank 0, in a cell."""
        return _tap.all_reduces(self.world, numel, count)

    def tap(self, numel: int, count: int, rounds: int) -> dict[str, list[float]]:
        """Seconds of blocks of all-reduces with and without labkit's tap, in turn."""
        return _tap.compare(self.world, numel, count, rounds)

    def mode(self, mode: str) -> None:
        self.world.set_mode(mode)

    def fault(self, name: str, limit_s: float) -> dict[str, Any]:
        """A fault from its injection to a healthy world."""
        return _faults.once(self.world, name, limit_s)

    def picture(self, numel: int, rounds: int) -> list[float]:
        """Seconds from a finished cell to its picture."""
        return _views.picture(self.world, numel, rounds)

    def watched(self, numel: int, count: int, rounds: int) -> dict[str, list[float]]:
        """Seconds of blocks of all-reduces with and without live cards."""
        return _views.watched(self.world, numel, count, rounds)

    def hold(self, num_bytes: int) -> None:
        _twin.hold(self.world, num_bytes)

    def burst(self, count: int) -> dict[str, float]:
        """Seconds and CPU seconds of cells in a row."""
        return _twin.burst(self.world, count)

    def twins_bytes(self) -> int:
        return _twin.twins_bytes(self.world)

    def killed(self) -> dict[str, float]:
        """A rank is killed, and comes back with what it knew."""
        return _twin.killed(self.world)

    def memory(self) -> dict[str, int]:
        """PSS of every process of the world, by what it is."""
        pids = [outcome.value["pid"] for outcome in self.world.run("ping").outcomes]
        cluster = self.world.core.cluster
        around = [cluster.pids["controller"], cluster.pids["store"]]
        if self._arguments.launcher != "subprocess":
            from labkit.driver.current import HOLDER

            around.append(HOLDER.server().pid)
        return {"ranks": sum(map(pss_bytes, pids)), "around": sum(map(pss_bytes, around))}


def pss_bytes(pid: int) -> int:
    """The proportional set size of a process: shared pages count by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--launcher", default="auto")
    parser.add_argument("--mode", default="raw")
    parser.add_argument("--keep", default="", help="no: ranks have no twins")
    parser.add_argument("--later", action="store_true", help="start no world before it is asked for")
    arguments = parser.parse_args()
    if arguments.keep:
        os.environ["LABKIT_KEEP"] = arguments.keep
    ops = Ops(arguments)
    if arguments.later:
        channel = Channel()
        channel.tell(event="up")
    else:
        first = ops.start()
        channel = Channel()
        channel.tell(event="first all-reduce", **first)
    try:
        channel.serve({name: getattr(ops, name) for name in OPS})
    finally:
        if ops.world is not None:
            ops.world.stop()


if __name__ == "__main__":
    main()
