"""What a learner asks for, brought to what can be run or measured; what makes no sense is refused before anything starts.

A fault that is armed is part of that: whether it may fire there, how long to wait for it, and what became of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..driver.cells import MAY_RESOLVE
from ..driver.core import WorldCore
from ..driver.injection import ActiveInjection
from ..errors import UsageError, count, shown
from ..registry import unknown
from ..schedule import ALGORITHMS, Algorithm, Schedule, check_programs, check_schedule, programs
from ..schedule.collective import reduce_op
from ..schedule.records import ITEM_BYTES
from ..schedule.sweeps import LIBRARY_MODELS
from ..units import MOST, is_whole

LIBRARY = "library"


def check_op(op: Any, dtype: Any) -> str:
    """The op's own name; UsageError if it makes no sense for the dtype."""
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise unknown("dtype", dtype, ITEM_BYTES)
    found = reduce_op(op)
    found.check(np.dtype("float32" if dtype == "bfloat16" else dtype))
    return found.name


def check_size(number: Any) -> int:
    """A number of elements or of bytes; UsageError else."""
    if not is_whole(number) or not 0 <= number <= MOST:
        hint = f"give at most {MOST:,}" if is_whole(number) and number > 0 else "give a whole number from 0"
        raise UsageError(f"{shown(number)} is not a valid size", hint=hint)
    return int(number)


def check_rounds(number: Any, low: int = 1) -> int:
    """How often something is measured; UsageError else."""
    if not is_whole(number) or number < low:
        raise UsageError(f"{shown(number)} is not a valid number of rounds", hint=f"give a whole number from {low}")
    return int(number)


def check_once(members: Sequence[int] | int | None) -> None:
    """UsageError for ranks that are named twice: a group of them is smaller than it looks."""
    try:
        times = Counter(members if isinstance(members, Collection) else ())
    except TypeError:  # what is no rank at all is told by whoever looks at the ranks
        return
    twice = [rank for rank, number in times.items() if number > 1]
    if twice:
        raise UsageError(f"rank {shown(twice[0])} is named twice", hint="name each rank once")


def several(given: Any, hint: str) -> tuple[Any, ...]:
    """One thing or many, as many; UsageError for what is neither."""
    if isinstance(given, (str, Algorithm, Schedule)):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise UsageError(f"{shown(given)} does not name any algorithm", hint=hint) from None


def catalogue_name(thing: Any) -> str:
    """The name under which an algorithm is known to the models; an `Algorithm` of the catalogue stands for its name."""
    if isinstance(thing, Schedule):
        raise UsageError(
            f"a schedule of {thing.name} cannot be used as a name", hint="name an algorithm; world.compare takes schedules"
        )
    if not isinstance(thing, Algorithm):
        return ALGORITHMS[thing].name
    if thing.name not in ALGORITHMS or ALGORITHMS[thing.name] is not thing:
        raise UsageError(f"{thing.name} is not in the catalogue", hint="ALGORITHMS.add(name, algorithm) puts it there")
    return thing.name


def contestants(given: Any) -> tuple[str, ...]:
    """Names of the library's collectives and of algorithms, each once."""
    found = []
    for thing in several(given, 'name collectives or algorithms, for example ["all_reduce", "ring"]'):
        if isinstance(thing, str) and thing not in LIBRARY_MODELS and thing not in ALGORITHMS:
            raise unknown("collective or algorithm", thing, [*LIBRARY_MODELS, *ALGORITHMS])
        found.append(thing if isinstance(thing, str) else catalogue_name(thing))
    return tuple(dict.fromkeys(found))


def schedule_of(world: WorldCore, algorithm: Any, params: dict[str, Any]) -> Schedule:
    """The schedule for this world, of an algorithm or its name; one that is a schedule already must fit."""
    if not isinstance(algorithm, Schedule):
        found = algorithm if isinstance(algorithm, Algorithm) else ALGORITHMS[algorithm]
        return found.schedule(world.world_size, **levels(world, found, params))
    if algorithm.world_size != world.world_size:
        raise UsageError(
            f"{algorithm.name} is a schedule for {count(algorithm.world_size, 'rank')}",
            hint=f"make it for {world.world_size}, the size of this world",
        )
    if params:
        name = next(iter(params))
        raise UsageError(
            f"{algorithm.name} is built already, so {name} cannot be changed", hint="give it when you build the schedule"
        )
    return algorithm


def levels(world: WorldCore, algorithm: Algorithm, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with the ranks on each host where the algorithm asks for them and the world is on hosts."""
    places = world.hosts
    local = len(places) // max(1, len(set(places)))
    if "ranks_per_host" not in algorithm.params or "ranks_per_host" in params or local == 0:
        return params
    alike = places == tuple(rank // local for rank in range(len(places)))
    return {**params, "ranks_per_host": local} if alike else params


def compared(world: WorldCore, algorithms: Any) -> list[Schedule]:
    """The schedules of a comparison: all-reduces of this world, and right ones, since a wrong one's speed means nothing."""
    hint = 'name all-reduce algorithms, for example ["ring", "binomial-tree"]'
    given = several(algorithms, hint)
    schedules = [schedule_of(world, each, {}) for each in given]
    for thing, schedule in zip(given, schedules, strict=True):
        if schedule.collective != "all_reduce":
            raise UsageError(f"{schedule.collective} can't be compared with an all-reduce", hint="name all-reduce algorithms")
        if not isinstance(thing, str):
            _refuse_wrong(schedule)
    return schedules


def _refuse_wrong(schedule: Schedule) -> None:
    problems = check_schedule(schedule) or check_programs(programs(schedule))
    if problems:
        raise UsageError(
            f"{schedule.name} is not an all-reduce: {problems[0].sentence.rstrip('.')}",
            hint="its speed means nothing until it is mended; world.run_schedule shows what it does",
        )


def labels(schedules: Sequence[Schedule]) -> list[str]:
    """A name for each entry of a comparison, no two alike, and none the library's.

    >>> ring, tree = ALGORITHMS["ring"].schedule(2), ALGORITHMS["double-tree"]
    >>> labels([ring, ring, tree.schedule(2, chunks=1), tree.schedule(2, chunks=4)])
    ['ring', 'ring (2)', 'double-tree (chunks=1)', 'double-tree (chunks=4)']
    """
    times = Counter(schedule.name for schedule in schedules)
    taken = [LIBRARY]
    for schedule in schedules:
        params = ", ".join(f"{name}={value}" for name, value in schedule.params.items())
        name = f"{schedule.name} ({params})" if params and times[schedule.name] > 1 else schedule.name
        label, number = name, 1
        while label in taken:
            number += 1
            label = f"{name} ({number})"
        taken.append(label)
    return taken[1:]


def refuse_armed(world: WorldCore, what: str) -> None:
    """UsageError if a fault is armed: what is measured would be the fault, and it does not fire there anyway."""
    for active in world.unfired():
        raise UsageError(
            f"{active.fault.name} is armed on rank {active.rank}, and {what} measures ranks as they are",
            hint="leave the `with` block first, or use world.run_schedule, where faults fire",
        )


@dataclass(frozen=True)
class Armed:
    """The armed faults of one run of a schedule."""

    faults: tuple[ActiveInjection, ...]

    @classmethod
    def now(cls, world: WorldCore) -> Armed:
        return cls(tuple(world.unfired()))

    @property
    def may_fire(self) -> bool:
        """Some fault may fire in a move."""
        return any(active.fault.in_schedule is not None for active in self.faults)

    def may_resolve(self, limit_s: float) -> frozenset[str]:
        """The verdicts that time may mend. A rank that was stopped for good, or for longer than the limit, is not waited for."""
        final: set[str] = set()
        for active in self.faults:
            expected = active.fault.in_schedule
            if expected is not None and expected.ending == "hang" and active.params.get("seconds", math.inf) > limit_s:
                final |= set(expected.codes)
        return MAY_RESOLVE - final

    def notes(self, num_moves: Sequence[int], name: str) -> tuple[str, ...]:
        """A line for each fault: that it fired, or why it did not."""
        return tuple(_note(active, num_moves[active.rank], name) for active in self.faults)


def _note(active: ActiveInjection, num_moves: int, name: str) -> str:
    fault, rank, at = active.fault, active.rank, active.params["at"]
    if fault.in_schedule is None:
        return f"the fault {fault.name} on rank {rank} does not apply to a schedule: it did not fire"
    if active.record.fired:
        active.expect(fault.in_schedule)
        return f"the fault {fault.name} fired on rank {rank}"
    if at > num_moves:
        return f"the fault {fault.name} did not fire: it waits for move {at}, and rank {rank} makes {num_moves} in {name}"
    return f"the fault {fault.name} did not fire: from move {at} on, no move of rank {rank} in {name} is one that it applies to"
