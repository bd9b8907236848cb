"""From a new kernel process to the first all-reduce on every rank, nothing prepared."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure, parts
from ..starts import experiment


@measure("start-cold", "Start to the first all-reduce, 4 ranks, cold", order=1)
def run(bench: Bench) -> list[Row]:
    """A new Python process on each side: labkit, torchrun, and (not when quick) ipyparallel as it comes."""
    found = experiment(bench)
    ours = Series.of("labkit", found.cold)
    limits = f"the import of torch, once; then the ranks' engines: {parts(found.cold_phases)}"
    rows = [Row("cold start", ours, Series.of("torchrun", found.torchrun), Goal(0.9), limits)]
    if found.stock:
        rows.append(Row("cold start", ours, Series.of("stock ipyparallel", found.stock), Goal(0.4), "as above"))
    return rows
