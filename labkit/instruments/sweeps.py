"""Sweeps over sizes on a world's live ranks, and the size at which two algorithms cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..driver.checks import targets_of
from ..driver.core import WorldCore, instrument
from ..driver.current import HOLDER
from ..errors import LabkitError, UsageError
from ..plain import dumps
from ..schedule import ALGORITHMS, Algorithm, Sample, crossover, fit, predict, programs
from ..schedule.collective import FACTORS
from ..schedule.fit import crossing_of
from ..schedule.records import ITEM_BYTES, Comparison
from ..schedule.sweeps import LIBRARY_MODELS, Crossing, Point, Sweep, collective_of
from ..units import format_bytes, parse_sizes
from .arguments import catalogue_name, check_once, check_op, check_rounds, contestants, levels, refuse_armed
from .schedules import compare, spans, where

OnProgress = Callable[[int, int, Point], None]
CALIBRATE = (1 << 10, 1 << 15, 1 << 20, 1 << 22)
AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)
LARGEST_BYTES = 64 << 20


@instrument
def sweep(
    world: WorldCore,
    sizes: Sequence[int] | int | str = "1K:16M:4",
    collectives: Sequence[str | Algorithm] = ("all_reduce",),
    *,
    dtype: str = "float32",
    op: str = "sum",
    rounds: int = 7,
    warmups: int = 2,
    ranks: Sequence[int] | None = None,
    on_progress: OnProgress | None = None,
    deadline_s: float | None = None,
) -> Sweep:
    """Measure library collectives ("all_reduce", ...) and schedules ("ring", ...) over sizes in bytes.

    `sizes` are S as the field's tools count it: the total for all-gather and reduce-scatter, rounded down to what the
    ranks can share; sizes that come to the same are measured once. `ranks`: only these take part, as a group of their
    own. An interrupt frees the ranks and keeps what was measured, and so does a rank that dies.
    """
    names = contestants(collectives)
    check_rounds(rounds)
    check_rounds(warmups, 0)
    reduce_name = check_op(op, dtype)
    refuse_armed(world, "a sweep")
    check_once(ranks)
    members = targets_of(ranks, world.world_size)
    fitting = ((name, _fitting(name, size, dtype, len(members))) for size in parse_sizes(sizes) for name in names)
    wanted = list(dict.fromkeys(fitting))
    points: list[Point] = []
    interrupted, error = False, ""
    try:
        with HOLDER.progress() as progress:
            for name, size in wanted:
                if on_progress is None:
                    progress.say(f"measuring {name} at {format_bytes(size)}: {len(points) + 1} of {len(wanted)}")
                points.append(_point(world, members, name, size, dtype, reduce_name, rounds, warmups, deadline_s))
                if on_progress is not None:
                    on_progress(len(points), len(wanted), points[-1])
    except KeyboardInterrupt:
        interrupted = True
    except LabkitError as failure:
        if not points:
            raise
        error = str(failure)
    return Sweep(world.backend, len(members), tuple(points), warmups, interrupted, error, where=where(world, members))


def _fitting(name: str, size: int, dtype: str, world_size: int) -> int:
    """The bytes that are measured where `size` is asked for: whole elements, and as many for each rank's piece."""
    item_bytes = ITEM_BYTES[dtype] * (world_size if FACTORS[collective_of(name)].times == "n" else 1)
    return max(1, size // item_bytes) * item_bytes


def _point(
    world: WorldCore, members: tuple[int, ...], name: str, size: int, dtype: str, op: str, rounds: int, warmups: int,
    deadline_s: float | None,
) -> Point:  # fmt: skip
    collective, item_bytes, world_size = collective_of(name), ITEM_BYTES[dtype], len(members)
    numel = size // item_bytes
    calls = 8 if size <= 1 << 16 else 2 if size <= 1 << 20 else 1  # a short call is lost in the clock of a busy machine
    made: dict[int, Any] = {}
    if name not in LIBRARY_MODELS:
        params = levels(world, ALGORITHMS[name], {}) if world_size == world.world_size else {}
        made = dict(zip(members, programs(ALGORITHMS[name].schedule(world_size, **params)), strict=True))
    shared = {"name": name, "numel": numel, "dtype": dtype, "op": op, "warmups": warmups, "rounds": rounds, "calls": calls}
    payloads = [
        {"program": dumps(made[rank]) if rank in made else "", "members": list(members), **shared}
        for rank in range(world.world_size)
    ]
    outcomes = world.request_each("sweep_point", payloads, deadline_s=deadline_s, must_answer=True).outcomes
    times = spans([outcome.value for outcome in outcomes if outcome.rank in members])
    return Point(
        name=name, collective=collective, world_size=world_size, num_bytes=size, dtype=dtype,
        item_bytes=item_bytes, op=op, times_s=tuple(seconds / calls for seconds in times),
    )  # fmt: skip


@instrument
def crossing(
    world: WorldCore, one: str | Algorithm, other: str | Algorithm, *, rounds: int = 7, deadline_s: float | None = None
) -> Crossing:
    """Fit both algorithms on four sizes, predict where they cross, and measure around there."""
    one, other = catalogue_name(one), catalogue_name(other)
    if one == other:
        raise UsageError(f"{one} does not cross itself", hint="name two different algorithms")
    for name in (one, other):
        if ALGORITHMS[name].collective != "all_reduce":
            raise UsageError(f"{name} is not an all-reduce", hint="name two all-reduce algorithms")

    with HOLDER.progress() as progress:

        def measure(size: int) -> Comparison:
            progress.say(f"{one} beside {other} at {format_bytes(size)}")
            return compare(world, [one, other], num_bytes=max(4, size // 4 * 4), rounds=rounds, deadline_s=deadline_s)

        return _crossing(world, one, other, measure)


def _crossing(world: WorldCore, one: str, other: str, measure: Callable[[int], Comparison]) -> Crossing:
    taken = [measure(size) for size in CALIBRATE]
    samples = [
        Sample(timing.name, world.world_size, each.num_bytes, timing.median_s) for each in taken for timing in each.timings[:2]
    ]
    link = fit(samples).link
    predicted, rises = crossover(one, other, world.world_size, link), None
    if predicted is not None:
        above = [predict(name, world.world_size, 2 * predicted, link).seconds for name in (one, other)]
        rises = above[0] > above[1]
        around = {int(predicted * factor) for factor in AROUND} - set(CALIBRATE)
        taken += [measure(size) for size in sorted(around) if 4 <= size <= LARGEST_BYTES]
    taken.sort(key=lambda each: each.num_bytes)
    ratios = [(float(each.num_bytes), each.timings[0].median_s / each.timings[1].median_s) for each in taken]
    return Crossing(one, other, world.world_size, link, predicted, crossing_of(ratios, rises=rises), tuple(taken))
