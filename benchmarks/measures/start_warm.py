"""The same with the fork server up: brought up beforehand, or left by an earlier world."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure, parts


@measure("start-warm", "Start to the first all-reduce, 4 ranks, warm", order=2)
def run(bench: Bench) -> list[Row]:
    """The first world after `warm()`, then a second one in the same kernel; torchrun has nothing to keep warm."""
    first: list[float] = []
    second: list[float] = []
    beside: list[float] = []
    phases: tuple[list[dict[str, float]], ...] = ([], [])
    for _ in range(bench.repeat):
        with bench.labkit("--later") as kernel:
            kernel.hear()
            kernel.ask("warm")
            for taken, kept in ((first, phases[0]), (second, phases[1])):
                answer = kernel.ask("start")
                kernel.ask("end")
                taken.append(answer["elapsed_s"])
                kept.append({name: s for name, s in answer["phases"].items() if not name.startswith(("import", "fork"))})
        with bench.torchrun() as ranks:
            ranks.hear()
            beside.append(ranks.age_s)
    torchrun = Series.of("torchrun", beside)
    return [
        Row("first start, fork server up", Series.of("labkit", first), torchrun, Goal(0.4), parts(phases[0])),
        Row("second start in a kernel", Series.of("labkit", second), torchrun, Goal(0.4), parts(phases[1])),
    ]
