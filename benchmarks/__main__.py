"""`python -m benchmarks`: takes the measures and prints the table. Its exit status says whether all could be taken."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from labkit.errors import UnknownName

from . import machine, render
from .bench import Bench
from .core import MEASURES, BenchError, Measure, Row

PAGE_WIDTH = 150


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of: {', '.join(MEASURES)}")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="how often a start or a fault is taken (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one of each, and no lab: a check of the bench, not of labkit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here as a page")
    return parser.parse_args(argv)


def chosen(only: Sequence[str] | None, *, quick: bool) -> list[Measure]:
    """The measures to take, in their order."""
    measures = [MEASURES[name] for name in only] if only else MEASURES.values()
    return sorted((m for m in measures if m.quick or not quick), key=lambda measure: measure.order)


def take(measure: Measure, bench: Bench) -> list[Row]:
    """A measure's rows; one that can't be taken becomes a row that says why."""
    try:
        return measure.run(bench)
    except BenchError as error:
        return [Row(measure.title, failed=str(error))]
    finally:
        bench.tidy()


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    console = Console(stderr=True)
    try:
        measures = chosen(options.only, quick=options.quick)
    except UnknownName as error:
        console.print(str(error))
        return 2
    findings = []
    took_s: dict[str, float] = {}
    began, load_before = time.monotonic(), machine.load()
    with Bench(options.repeat, quick=options.quick) as bench, console.status("") as status:
        for measure in measures:
            status.update(measure.title)
            bench.say = lambda text, title=measure.title: status.update(f"{title}: {text}")  # type: ignore[misc]
            findings.append((measure, take(measure, bench)))
            took_s[measure.name] = time.monotonic() - began - sum(took_s.values())
    seconds = ", ".join(f"{name} {taken:.0f}" for name, taken in took_s.items())
    how = (
        f"Dear things were taken {bench.repeat} times; the whole took {sum(took_s.values()) / 60:.0f} minutes; "
        f"in seconds: {seconds}. "
        f"Load average of the last minute before: {load_before:.1f}, after: {machine.load():.1f}."
    )
    out = Console() if sys.stdout.isatty() else Console(width=PAGE_WIDTH)
    out.print(render.table(findings))
    out.print(*render.remarks(findings), f"{machine.describe()}. {how}", sep="\n", highlight=False, markup=False)
    for text in bench.left_behind:
        console.print(f"left running, now ended: {text}")
    if options.json:
        options.json.write_text(render.document(findings, machine.describe(), how=how, left_behind=bench.left_behind))
    if options.markdown:
        options.markdown.write_text(render.markdown(findings, machine.describe(), how))
    return 1 if bench.left_behind or any(row.failed for _, rows in findings for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
