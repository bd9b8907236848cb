"""Numbers to put on ranks so that a wrong sum says by itself who is missing.

Ones can't: 3 instead of 4 says that somebody is missing, not who. Small primes can't either: 2 + 3 = 5,
so a missing 5 and a missing 2 and 3 look the same. These primes each exceed twice the sum of all before,
so that every sum in which each rank counts 0, 1 or 2 times comes about in one way only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Printed
from ..errors import UsageError, join_ranks
from ..wire import TensorTable, record

PRIMES = (2, 5, 17, 53, 157, 479, 1427, 4283)


def counts(total: float, world_size: int) -> tuple[int, ...] | None:
    """How often each rank is in a sum of primes (0, 1 or 2 times), None if it can't be such a sum.

    >>> counts(77, 4), counts(60, 4), counts(79, 4), counts(76, 4)
    ((1, 1, 1, 1), (1, 1, 0, 1), (2, 1, 1, 1), None)
    """
    if not 1 <= world_size <= len(PRIMES):
        raise UsageError(f"there are primes for 1 to {len(PRIMES)} ranks", hint="start a smaller world", world_size=world_size)
    if not float(total).is_integer():
        return None
    left, found = int(total), []
    for prime in reversed(PRIMES[:world_size]):
        times = min(2, max(0, left) // prime)
        left -= times * prime
        found.append(times)
    return tuple(reversed(found)) if left == 0 else None


def explain(total: float, world_size: int) -> str:
    """A sum of primes in words.

    >>> explain(60, 4), explain(79, 4), explain(77, 4)
    ('rank 2 is missing', 'rank 0 is counted twice', 'every rank is counted once')
    """
    found = counts(total, world_size)
    if found is None:
        return "it is not a sum of the ranks' primes"
    missing = [rank for rank, times in enumerate(found) if times == 0]
    twice = [rank for rank, times in enumerate(found) if times == 2]
    parts = [f"{join_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {how}"
             for ranks, how in ((missing, "missing"), (twice, "counted twice")) if ranks]  # fmt: skip
    return " and ".join(parts) or "every rank is counted once"


@record
class Roll(Printed):
    """Who took part in each rank's sums: for each rank, what its elements say, equal ones once."""

    world_size: int
    lines: tuple[tuple[int, tuple[str, ...]], ...]


def roll_call(table: TensorTable) -> Roll:
    """Read sums of primes on all ranks as lists of who is in them."""
    size = len(table.samples) + len(table.missing)
    lines = []
    for sample in sorted(table.samples, key=lambda sample: sample.rank):
        lines.append((sample.rank, _texts(sample.values, size)))
    return Roll(size, tuple(lines))


def _texts(values: Sequence[float], size: int) -> tuple[str, ...]:
    places: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(_members(value, size), []).append(place)
    if len(places) == 1:
        return (f"the sum of {next(iter(places))}",)
    return tuple(f"element{'s' if len(at) > 1 else ''} {_span(at)}: {text}" for text, at in places.items())


def _span(at: Sequence[int]) -> str:
    return f"{at[0]}" if len(at) == 1 else f"{at[0]}-{at[-1]}" if at[-1] - at[0] == len(at) - 1 else ", ".join(map(str, at))


def _members(value: float, size: int) -> str:
    found = counts(value, size)
    if found is None:
        return f"no ranks' primes ({value:g})"
    twice = [rank for rank, times in enumerate(found) if times == 2]
    return join_ranks([rank for rank, times in enumerate(found) if times]) + (f" ({join_ranks(twice)} twice)" if twice else "")
