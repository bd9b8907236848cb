"""Memory that one more rank takes, forked and as a process of its own."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, interleaved, measure

FEW, MANY = 1, 4


@measure("memory", "Memory of one more rank (PSS)", order=8)
def run(bench: Bench) -> list[Row]:
    """The world's processes with 4 ranks less those with 1, per rank; pages that are shared count by their share."""

    def whole(launcher: str, ranks: int) -> float:
        with bench.labkit("--launcher", launcher, "--ranks", str(ranks)) as world:
            world.hear()
            return float(sum(world.ask("memory").values()))

    def extra(launcher: str) -> float:
        return (whole(launcher, MANY) - whole(launcher, FEW)) / (MANY - FEW)

    ours, beside = interleaved(min(bench.repeat, 3), lambda: extra("fork"), lambda: extra("subprocess"))
    limits = "pages of Python objects that a fork writes to (reference counts), and what the engine and gloo make anew"
    return [
        Row(
            "memory per extra rank",
            Series.of("forked", ours, "bytes"),
            Series.of("subprocess", beside, "bytes"),
            Goal(0.5),
            limits,
        )
    ]
