"""The same with the fork server up: brought up beforehand, or left by an earlier world."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure, parts
from ..starts import experiment


@measure("start-warm", "Start to the first all-reduce, 4 ranks, warm", order=2)
def run(bench: Bench) -> list[Row]:
    """The first world after `warm()`, then a second one in the same kernel, in turn with the cold starts; torchrun has
    nothing to keep warm."""
    found = experiment(bench)
    torchrun = Series.of("torchrun", found.torchrun)
    return [
        Row("first start, fork server up", Series.of("labkit", found.first), torchrun, Goal(0.4), parts(found.first_phases)),
        Row("second start in a kernel", Series.of("labkit", found.second), torchrun, Goal(0.4), parts(found.second_phases)),
    ]
