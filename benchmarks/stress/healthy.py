"""Programs that are right, many times over: a verdict or a note on any of them is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labkit.driver.world import World
from labkit.vocabulary import Ending
from labkit.wire import Verdict

from .programs import LATE, PROGRAMS

DEADLINE_S = 60.0


@dataclass
class Healthy:
    """How many cells ran, and what was said of any, which is wrong."""

    cells: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self.wrong, f"{self.cells - len(self.wrong)} of {self.cells} right cells with no verdict and no note"])


def said_of(world: World, source: str, late: tuple[int, ...] = ()) -> str:
    """Run a program that is right; what is said of it, or raised in it: "" if all is as it should be.

    Of ranks that are late on purpose it may be said that they were late and all is right.
    """

    def alarms(verdicts: Iterable[Verdict]) -> list[str]:
        return [each.sentence for each in verdicts if (each.ending, each.culprits) != (Ending.SLOW, late)]

    result = world.run_cell(source, deadline_s=DEADLINE_S)
    found = [str(outcome.error) for outcome in result.outcomes if outcome.error is not None]
    found += [outcome.status for outcome in result.outcomes if not outcome.ok and outcome.error is None]
    found += alarms(result.diagnosis.verdicts if result.diagnosis else ())
    found += [f"note, {note.place}: {note.title}" for note in result.notes]
    found += alarms(world.diagnose().verdicts)
    return "; ".join(found)


def healthy(
    make: Callable[[int], World], sizes: Iterable[int], cells: int, say: Callable[[str], object] = lambda text: None
) -> Healthy:
    """Run `cells` programs, as many in worlds of each size, raw and safe."""
    found = Healthy()
    kinds = [(size, mode) for size in sizes for mode in ("raw", "safe")]
    for number, (size, mode) in enumerate(kinds):
        world = make(size)
        world.set_mode(mode)
        share = cells // len(kinds) + (number < cells % len(kinds))
        names = [*LATE, *itertools.islice(itertools.cycle(PROGRAMS), share - len(LATE))]
        for name in names[:share]:
            found.cells += 1
            late = (size - 1,) if name in LATE else ()
            wrong = said_of(world, LATE[name] if late else PROGRAMS[name], late)
            if wrong:
                found.wrong.append(f"{name}, {size} ranks, {mode}: {wrong}")
                world.recover()
        say(f"{size} ranks, {mode}: {found.cells} cells, {len(found.wrong)} wrong")
    return found
