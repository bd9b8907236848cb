"""From a new kernel process to the first all-reduce on every rank, nothing prepared."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, interleaved, measure, parts
from ..program import Program


@measure("start-cold", "Start to the first all-reduce, 4 ranks, cold", order=1)
def run(bench: Bench) -> list[Row]:
    """A new Python process on each side: labkit, torchrun, and (not when quick) ipyparallel as it comes."""
    phases: list[dict[str, float]] = []

    def age(program: Program) -> float:
        with program:
            told = program.hear()
            taken = program.age_s
        phases.extend([told["phases"]] if "phases" in told else [])
        return taken

    age(bench.labkit())  # not counted: files come into memory
    phases.clear()
    takes = [lambda: age(bench.labkit()), lambda: age(bench.torchrun())]
    if not bench.quick:
        takes.append(lambda: age(bench.stock()))
    ours, torchrun, *stock = interleaved(bench.repeat, *takes)
    limits = f"the import of torch, once; then the ranks' engines: {parts(phases)}"
    rows = [Row("cold start", Series.of("labkit", ours), Series.of("torchrun", torchrun), Goal(0.9), limits)]
    if stock:
        rows.append(Row("cold start", rows[0].ours, Series.of("stock ipyparallel", stock[0]), Goal(0.4), "as above"))
    return rows
