"""What a run on live ranks came to: one schedule, or several beside the library's own all-reduce."""

from __future__ import annotations

import statistics
from dataclasses import field

from ..document import Printed
from ..plain import record
from ..registry import unknown
from ..wire import Diagnosis

FAR_OFF = 1e300  # NaN or infinity where the library has a number, or the other way round; JSON has neither
NOTEWORTHY = 0.05  # of a rank's time: an earlier start than this is said, since the rank's steps have that wait in them
# What can be reduced on live ranks, with bytes an element.
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int8": 1, "uint8": 1,
}  # fmt: skip


@record
class Source:
    """Where a recorded result comes from: when, on what machine, with which backend and versions, and what it is about."""

    recorded_at: str
    machine: str = ""
    backend: str = ""
    world_size: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    about: str = ""

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        facts = "; ".join(part for part in (self.backend, self.machine, versions) if part)
        return f"recorded on {self.recorded_at}, not run here{f' ({facts})' if facts else ''}" + (
            f": {self.about}" if self.about else ""
        )


def with_source(text: str, source: Source | None) -> str:
    """A record's text, and on a line of its own where it was recorded.

    >>> print(with_source("ring: 2 ms", Source("2026-01-31 12:00 UTC", backend="gloo")))
    ring: 2 ms
    recorded on 2026-01-31 12:00 UTC, not run here (gloo)
    """
    return text if source is None else f"{text}\n{source}"


@record
class RankRun:
    """One rank's part: seconds by step (only if traced), what it sent and received, and how its result compares.

    `seconds` and the steps count from the rank's own start, which is `early_s` before the last rank's: so long its first
    steps may have waited for the others. `agrees`: equal to the library's result, bitwise for whole numbers. `worst` is
    the largest difference, relative to the largest value. `digest` is equal on ranks that hold bitwise the same.
    """

    rank: int
    seconds: float
    step_s: tuple[float, ...]
    sent_messages: int
    received_messages: int
    sent_bytes: int
    received_bytes: int
    agrees: bool
    worst: float = 0.0
    digest: str = ""
    early_s: float = 0.0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.sent_messages, self.received_messages, self.sent_bytes, self.received_bytes


@record
class ScheduleRun(Printed):
    """A schedule executed by live ranks.

    `seconds` run from the last rank's start to the last rank's end.
    `declared` is what the schedule says of each rank: messages sent and received, bytes sent and received.
    `traced`: the steps ran one after the other and were timed; otherwise they overlapped.
    `diagnosis` is there if the run did not end by itself (`error` is then the first rank's own words), or if something was
    wrong with it all the same. `notes` say of each fault that was armed whether it fired.
    """

    name: str
    collective: str
    world_size: int
    num_elements: int
    dtype: str
    op: str
    num_bytes: int
    num_steps: int
    traced: bool
    seconds: float
    ranks: tuple[RankRun, ...]
    declared: tuple[tuple[int, int, int, int], ...]
    diagnosis: Diagnosis | None = None
    error: str = ""
    notes: tuple[str, ...] = ()
    backend: str = ""
    source: Source | None = None

    @property
    def ended(self) -> bool:
        """Every rank came to the end of its program."""
        return len(self.ranks) == self.world_size

    @property
    def agrees(self) -> bool:
        """Every rank has what the library's all-reduce gives."""
        return self.ended and all(each.agrees for each in self.ranks)

    @property
    def disagreeing(self) -> tuple[int, ...]:
        """The ranks whose result is not the library's."""
        return tuple(each.rank for each in self.ranks if not each.agrees)

    @property
    def counted(self) -> bool:
        """Every rank sent and received what the schedule says, message by message and byte by byte."""
        return self.ended and all(each.counts == said for each, said in zip(self.ranks, self.declared, strict=True))

    @property
    def ok(self) -> bool:
        return self.agrees and self.counted

    @property
    def step_s(self) -> tuple[float, ...]:
        """The slowest rank's seconds in each step."""
        return tuple(max(column) for column in zip(*(each.step_s for each in self.ranks), strict=True)) if self.ranks else ()


def far_off(worst: float) -> str:
    """How far a result is from the library's.

    >>> far_off(0.25)
    'off by up to 0.25 times the largest value'
    """
    return f"off by up to {worst:.2g} times the largest value" if worst < FAR_OFF else "NaN or infinity in other places"


class Rounds:
    """Median and spread of `times_s`, the seconds of each round, for records that have such a field.

    >>> timing = Timing("ring", (3.0, 1.0, 2.0))
    >>> timing.median_s, timing.low_s, timing.high_s
    (2.0, 1.0, 3.0)
    """

    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def low_s(self) -> float:
        return min(self.times_s)

    @property
    def high_s(self) -> float:
        return max(self.times_s)


@record
class Timing(Rounds):
    """One contestant: seconds of each round, from when the last rank was ready until the last one was through."""

    name: str
    times_s: tuple[float, ...]


@record
class Comparison(Printed):
    """All-reduce algorithms side by side, taken in turn with the library's own, which comes last; `where`: on which hosts."""

    world_size: int
    num_bytes: int
    dtype: str
    timings: tuple[Timing, ...]
    backend: str = ""
    source: Source | None = None
    where: str = ""

    @property
    def library(self) -> Timing:
        return self.timings[-1]

    def speed(self, name: str) -> float:
        """The library's time over this one's, the median over rounds: 0.5 is half as fast as the library."""
        found = next((each for each in self.timings if each.name == name), None)
        if found is None:
            raise unknown("entry", name, [each.name for each in self.timings])
        pairs = zip(self.library.times_s, found.times_s, strict=True)
        # one acted rank sends nothing, and takes no time at all
        return statistics.median(theirs / ours if ours else 1.0 for theirs, ours in pairs)

    @property
    def ratios(self) -> str:
        """What is to be known of the speeds, where it makes a difference."""
        if len(self.library.times_s) < 2:
            return ""
        return "The speed is the median of each round's ratio, not the ratio of the medians."
