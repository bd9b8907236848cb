"""How well latency and bandwidth, fitted on some sizes, predict the others; and where two algorithms cross."""

from __future__ import annotations

from statistics import median

from labkit.units import format_bytes

from ..bench import Bench
from ..core import Row, Series, measure
from ..program import Program
from .schedules import ALGORITHMS, KIB, program

NAMES = ("all_reduce", *ALGORITHMS)
SIZES = [KIB << power for power in range(0, 15, 2)]  # 1 KiB to 16 MiB
ROUNDS = 15
LIMITS = "spread of a busy machine; two numbers for caches, TCP windows and pieces"


@measure("schedules-model", "The price of a collective, 4 ranks", order=11)
def run(bench: Bench) -> list[Row]:
    """A sweep of 1 KiB to 16 MiB. Each size in turn is held out of the fit and predicted; an error is relative to the
    measured time, and beside it are the errors on the sizes that a fit has seen."""
    with program(bench) as world:
        world.hear()
        bench.say("sweep")
        found = world.ask("residuals", deadline_s=300.0, names=NAMES, sizes=SIZES, rounds=bench.rounds(ROUNDS))
        rows = [residual_row(name, found[name]) for name in NAMES]
        bench.say("crossing")
        return [*rows, crossing_row(bench, world)]


def residual_row(name: str, found: dict[str, list[float]]) -> Row:
    """Median and worst error on the sizes that a fit has not seen; size by size, with the sign, in the notes."""
    held, seen = ([abs(error) for error in found[which]] for which in ("held", "seen"))
    sides = Series.of("held out", held, ""), Series.of("fitted", seen, "")
    what = "gloo's all_reduce as a ring" if name == "all_reduce" else name
    summary = f"held out: median {median(held):.0%}, worst {max(held):.0%}"
    notes = tuple(f"{format_bytes(size)}: {error:+.0%}" for size, error in zip(SIZES, found["held"], strict=True))
    return Row(f"error of the fit, {what}", *sides, None, LIMITS, (summary, *notes))


def crossing_row(bench: Bench, world: Program) -> Row:
    """The size at which two algorithms cost the same: predicted beside measured."""
    what = "recursive doubling and ring cross at"
    question = {"one": "recursive-doubling", "other": "ring", "rounds": bench.rounds(30)}
    predicted, measured = world.ask("crossing", deadline_s=300.0, **question)
    if predicted is None or measured is None:
        return Row(what, skipped="they do not cross in what was measured")
    return Row(what, Series.of("predicted", [predicted], "bytes"), Series.of("measured", [measured], "bytes"))
