"""From an injected fault to a healthy world with a correct all-reduce."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..bench import Bench
from ..core import Goal, Row, Series, measure
from ..faults import experiment, values


@measure("recovery", "Injected fault to a healthy world, 4 ranks", order=3)
def run(bench: Bench) -> list[Row]:
    """`recover()` and a checked all-reduce, for every fault; beside it a stock restart, of engines that hang in nothing."""
    found = experiment(bench)
    reports = found.reports
    stock = Series.of("stock ipyparallel restart", found.restarts)
    taken = {name: Series.of(f"labkit, {name}", values(each, "recover_s")) for name, each in reports.items()}
    worst = max(taken, key=lambda name: taken[name].median)
    replaced = [series.median for name, series in taken.items() if reports[name][0]["replaced"]]
    kept = [series.median for name, series in taken.items() if not reports[name][0]["replaced"]]
    limits = (
        f"a rank replaced takes {median(replaced or [0]):.2f} s (fork, engine boot, registration), "
        f"ranks that are freed {median(kept or [0]):.2f} s"
    )
    typical = Series.of("labkit, one value per fault", [series.median for series in taken.values()])
    notes = tuple(_note(name, reports[name]) for name in sorted(taken, key=lambda name: -taken[name].median))
    return [
        Row(f"the slowest fault to recover from ({worst})", taken[worst], stock, Goal(0.03), limits, notes),
        Row("the same, in seconds", taken[worst], None, Goal(1.0, ratio=False)),
        Row("all faults", typical, stock, Goal(0.03)),
        Row("the slowest, beside a restart of ranks that hang", taken[worst], Series.of("stock, 3 of 4 stuck", [found.stuck_s])),
        Row(*_whole(reports)),
    ]


def _whole(reports: dict[str, list[dict[str, Any]]]) -> tuple[str, Series]:
    """From the firing on, verdict and recovery together, for faults whose cell ends as soon as it is judged."""
    whole = {name: values(found, "whole_s") for name, found in reports.items() if not found[0]["late"]}
    worst = max(whole, key=lambda name: median(whole[name]))
    return f"firing to healthy, verdict included: the slowest fault that ends its cell ({worst})", Series.of(
        "labkit", whole[worst]
    )


def _note(name: str, found: list[dict[str, Any]]) -> str:
    named = values(found, "named_s")
    verdict = f"named {median(named):.2f} s after it fired" if named else "not named"
    return f"{name}: {median(values(found, 'recover_s')):.2f} s ({found[0]['rung']}), {verdict}"
