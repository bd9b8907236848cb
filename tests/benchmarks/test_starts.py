"""Cold and warm starts are one experiment: each side once a round, and read by two measures."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.measures import start_cold, start_warm


class Started:
    """A program that is up after so many seconds."""

    def __init__(self, age_s: float) -> None:
        self.age_s = age_s

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def hear(self) -> dict[str, Any]:
        return {"phases": {"import labkit": 1.0}}

    def ask(self, op: str) -> Any:
        return {"elapsed_s": self.age_s / 4, "phases": {"import labkit": 1.0, "form the group": 0.5}} if op == "start" else None


class Played(Bench):
    """Starts nothing; notes what it was asked to start."""

    def __init__(self, repeat: int = 2, *, quick: bool = False) -> None:
        super().__init__(repeat, quick=quick)
        self.started: list[str] = []

    def labkit(self, *arguments: str) -> Any:
        self.started.append(" ".join(["labkit", *arguments]))
        return Started(2.0 + len(self.started))

    def torchrun(self, ranks: int = 4) -> Any:
        self.started.append("torchrun")
        return Started(8.0)

    def stock(self, ranks: int = 4) -> Any:
        self.started.append("stock")
        return Started(20.0)


def test_each_side_starts_once_a_round_and_the_first_start_does_not_count() -> None:
    with Played() as bench:
        cold, warm = start_cold.run.run(bench), start_warm.run.run(bench)
    assert bench.started == ["labkit", *["labkit", "torchrun", "labkit --later", "stock"] * 2]
    assert [row.ours.values for row in cold if row.ours] == [(4.0, 8.0)] * 2
    assert [row.beside.values for row in cold if row.beside] == [(8.0, 8.0), (20.0, 20.0)]
    assert [row.ours.values for row in warm if row.ours] == [(6 / 4, 10 / 4)] * 2
    assert all(row.ratio_spread for row in [*cold, *warm])
    assert cold[0].limits.endswith("import labkit 1.00 s")
    assert warm[0].limits == "form the group 0.50 s"


def test_quick_leaves_stock_ipyparallel_out() -> None:
    with Played(quick=True) as bench:
        assert len(start_cold.run.run(bench)) == 1
    assert bench.started == ["labkit", "labkit", "torchrun", "labkit --later"]
