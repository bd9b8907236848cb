"""From the last sign of progress to a verdict that names the culprit."""

from __future__ import annotations

from statistics import median

from labkit.faults import FAULTS

from ..bench import Bench
from ..core import Goal, Row, Series, measure
from ..faults import CELL_LIMIT_S, experiment, values


@measure("stall", "Stall to verdict, 4 ranks", order=4)
def run(bench: Bench) -> list[Row]:
    """For the faults that hang: from the last beat of any rank to the first look that names rank and cause."""
    reports = {name: found for name, found in experiment(bench).reports.items() if FAULTS[name].expect["raw"].ending == "hang"}
    named = {name: values(found, "stalled_s") for name, found in reports.items()}
    told = {name: values(found, "told_s") for name, found in reports.items()}
    worst = max((name for name in named if named[name]), key=lambda name: median(named[name]))
    late = max((name for name in told if told[name]), key=lambda name: median(told[name]))
    waiting = sorted(name for name in told if told[name] and median(told[name]) > CELL_LIMIT_S / 2)
    share = [sum(report["named"] for report in found) / len(found) for found in reports.values()]
    looks_s = median(seconds for found in reports.values() for seconds in values(found, "look_s"))
    return [
        Row(
            f"last progress to verdict, the slowest fault ({worst})", Series.of(f"labkit, {worst}", named[worst]), None,
            Goal(1.0, ratio=False), f"the quiet time before a look, 0.35 s, by choice; a look takes {looks_s * 1000:.0f} ms",
            tuple(f"{name}: {median(taken):.2f} s" if taken else f"{name}: never named" for name, taken in named.items()),
        ),
        Row(
            "share of runs in which rank and cause are named", Series.of("labkit, the worst fault", [min(share)], ""), None,
            Goal(1.0, ratio=False, at_least=True), "" if min(share) == 1 else "rules that ask for more evidence",
            tuple(f"{name}: {part:.0%}" for name, part in zip(reports, share, strict=True) if part < 1),
        ),
        Row(
            f"last progress until the caller has it, the slowest fault ({late})", Series.of("labkit", told[late]), None, None,
            f"two looks that agree; told only at the cell's deadline ({CELL_LIMIT_S:g} s): "
            + (", ".join(waiting) or "none"),
        ),
    ]  # fmt: skip
