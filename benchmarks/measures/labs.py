"""Every lab from first cell to last, as CI runs them."""

from __future__ import annotations

from ..bench import Bench
from ..core import BenchError, Goal, Row, Series, measure
from ..program import ROOT

LIMIT_S = 1800.0
TITLE = "all labs"


@measure("labs", "All labs", order=9, quick=False)
def run(bench: Bench) -> list[Row]:
    """The wall time of the labs lane."""
    if not any((ROOT / "labs").glob("*.ipynb")):
        return [Row(TITLE, skipped="there is no lab yet")]
    seconds, status = bench.pytest("labs", LIMIT_S)
    if status:
        raise BenchError(f"the labs lane ended with {status}")
    return [Row(TITLE, Series.of("labkit", [seconds]), None, Goal(600.0, ratio=False), "the labs run one after the other")]
