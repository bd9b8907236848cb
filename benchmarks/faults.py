"""Every fault, several times, in one world: the experiment that the measures of recovery and of stalls both read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labkit.faults import FAULTS

from .bench import Bench

CELL_LIMIT_S = 4.0
QUICK = ("killed", "swapped-order")

Reports = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Experiment:
    """Reports by fault; seconds of stock restarts between the rounds over all faults, and of one of engines that hang."""

    reports: Reports
    restarts: list[float]
    stuck_s: float


def experiment(bench: Bench) -> Experiment:
    """All of it, made once in a run."""
    return bench.once("faults", lambda: _experiment(bench))


def _experiment(bench: Bench) -> Experiment:
    names = [name for name in FAULTS if not bench.quick or name in QUICK]
    reports: Reports = {name: [] for name in names}
    restarts: list[float] = []
    with bench.labkit() as world, bench.stock() as stock:
        world.hear()
        stock.hear()
        for _ in range(bench.repeat):
            for name in names:
                bench.say(f"fault {name}")
                reports[name].append(world.ask("fault", name=name, limit_s=CELL_LIMIT_S))
            restarts.append(stock.ask("restart", stuck=False, deadline_s=180.0))
        bench.say("stock restart of engines that hang")
        stuck_s = float(stock.ask("restart", stuck=True, deadline_s=180.0))
    return Experiment(reports, restarts, stuck_s)


def values(reports: list[dict[str, Any]], key: str) -> list[float]:
    """One quantity of a fault's reports; a round that does not have it is left out."""
    return [report[key] for report in reports if key in report]
