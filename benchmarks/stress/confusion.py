"""Every fault of the catalogue against what was said of it, with its culprit; a table, and a line for each that is wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labkit.driver.world import World
from labkit.faults import FAULTS

DEADLINE_S = 1.2
SLOW_DEADLINE_S = 5.0  # the slow fault ends well before


@dataclass
class Confusion:
    """`said[fault, mode][code]`: how often the first verdict on a fault had this code ("" for no verdict)."""

    said: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(map(Counter.total, self.said.values()))

    def add(self, fault: str, mode: str, rank: int, size: int, code: str, culprits: tuple[int, ...]) -> None:
        """Take down what was said of a fault on `rank` of `size`; a code that is not expected, or an innocent rank, is wrong."""
        self.said.setdefault((fault, mode), Counter())[code] += 1
        expected = FAULTS[fault].expect[mode].codes
        if (code not in expected) if expected else bool(code):
            self.wrong.append(f"{fault} on rank {rank} of {size}, {mode}: {code or 'nothing said'}, not {' or '.join(expected)}")
        elif code and culprits != (rank,) and not (size == 2 and rank in culprits):  # of two ranks nobody has the majority
            self.wrong.append(f"{fault} on rank {rank} of {size}, {mode}: {code} names {culprits}")

    def __str__(self) -> str:
        rows = [
            f"{fault:20} {mode:5} " + ", ".join(f"{code or '(none)'} x {times}" for code, times in counts.most_common())
            for (fault, mode), counts in sorted(self.said.items())
        ]
        right = self.total - len(self.wrong)
        return "\n".join([*rows, *self.wrong, f"{right} of {self.total} right"])


def confusion(
    make: Callable[[int], World], sizes: Iterable[int], seeds: int, say: Callable[[str], object] = lambda text: None
) -> Confusion:
    """Run the catalogue in worlds of `sizes` ranks, raw and safe, `seeds` times, each time on another rank by chance."""
    found = Confusion()
    for size in sizes:
        world = make(size)
        for mode in ("raw", "safe"):
            world.set_mode(mode)
            for fault, spec in ((name, FAULTS[name]) for name in FAULTS):
                for seed in range(seeds):
                    rank = random.Random(f"{fault} {mode} {size} {seed}").randrange(size)
                    limit_s = SLOW_DEADLINE_S if spec.expect[mode].ending == "slow" else DEADLINE_S
                    result = world.try_fault(fault, rank, deadline_s=limit_s)
                    verdict = result.diagnosis.verdict if result.diagnosis else None
                    found.add(fault, mode, rank, size, verdict.code if verdict else "", verdict.culprits if verdict else ())
                    world.recover()
            say(f"{size} ranks, {mode}: {found.total - len(found.wrong)} of {found.total} right")
    return found
