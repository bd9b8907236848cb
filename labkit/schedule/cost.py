"""What a schedule costs: alpha per message, beta per byte, gamma per byte reduced.

A rank has one port that sends and receives at the same time. A step lasts until its busiest rank is through, and steps
follow one another. So the price is the schedule's own counts, times three numbers of the machine. (The busiest rank by
messages, by bytes and by bytes reduced is looked for separately: in all that is here it is the same one.) The closed
forms are held against the counts by the tests, and serve any number of ranks at once.

What it leaves out: congestion (many pairs on one wire), overlap of steps, and ranks that come late.
"""

from __future__ import annotations

import math
from typing import Any

from ..document import Printed
from ..errors import UsageError
from ..plain import record
from ..registry import unknown
from ..units import algbw_gb_per_s
from .algorithm import ALGORITHMS, Algorithm, Path, algorithms_for
from .checks import check_int, check_number
from .collective import busbw_factor
from .model import Schedule, Totals, count


@record
class Link:
    """A machine in three numbers: seconds per message, per byte, and per byte reduced.

    >>> Link.of(latency_us=5, gb_per_s=10)
    Link(alpha_s=5e-06, beta_s_per_byte=1e-10, gamma_s_per_byte=0.0)
    """

    alpha_s: float
    beta_s_per_byte: float
    gamma_s_per_byte: float = 0.0

    def __post_init__(self) -> None:
        check_number("alpha_s", self.alpha_s)
        check_number("beta_s_per_byte", self.beta_s_per_byte)
        check_number("gamma_s_per_byte", self.gamma_s_per_byte)

    @staticmethod
    def of(latency_us: float, gb_per_s: float, reduce_gb_per_s: float = math.inf) -> Link:
        """A link by latency and bandwidth, as people say them."""
        latency_us = check_number("latency_us", latency_us)
        speed = check_number("gb_per_s", gb_per_s, above_zero=True, infinite=True)
        reducing = check_number("reduce_gb_per_s", reduce_gb_per_s, above_zero=True, infinite=True)
        return Link(latency_us / 1e6, 1 / (speed * 1e9), 1 / (reducing * 1e9))


@record
class Price(Printed):
    """Predicted seconds, and what they are made of; `algbw` and `busbw` in GB/s as the field's tools count them."""

    name: str
    collective: str
    world_size: int
    num_bytes: float
    latency_s: float
    transfer_s: float
    reduce_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.latency_s + self.transfer_s + self.reduce_s

    @property
    def algbw_gb_per_s(self) -> float:
        return algbw_gb_per_s(self.num_bytes, self.seconds) if self.seconds else 0.0

    @property
    def busbw_gb_per_s(self) -> float:
        return self.algbw_gb_per_s * busbw_factor(self.collective, self.world_size)


def predict(name: str, world_size: int, num_bytes: float, link: Link, **params: Any) -> Price:
    """The price of an algorithm by its closed form.

    >>> print(predict("ring", 4, 2**20, Link.of(latency_us=5, gb_per_s=10)))
    ring, 1 MiB on 4 ranks: 187 µs = 30 µs latency + 157 µs transfer
    """
    check_number("num_bytes", num_bytes)
    algorithm = ALGORITHMS[name]
    path = algorithm.critical(world_size, **params)
    return Price(
        name=name,
        collective=algorithm.collective,
        world_size=world_size,
        num_bytes=num_bytes,
        latency_s=path.messages * link.alpha_s,
        transfer_s=float(path.fraction) * num_bytes * link.beta_s_per_byte,
        reduce_s=float(path.reduced) * num_bytes * link.gamma_s_per_byte,
    )


def price(schedule: Schedule, num_elements: int, link: Link, itemsize: int = 4) -> Price:
    """The price of any schedule, a learner's own too, by counting its steps."""
    totals = count(schedule, num_elements, itemsize)
    return price_of(schedule, totals, num_elements * itemsize, link)


def price_of(schedule: Schedule, totals: Totals, num_bytes: int, link: Link) -> Price:
    """The price of counts that are there already."""
    return Price(
        name=schedule.name,
        collective=schedule.collective,
        world_size=schedule.world_size,
        num_bytes=num_bytes,
        latency_s=totals.messages * link.alpha_s,
        transfer_s=totals.num_bytes * link.beta_s_per_byte,
        reduce_s=totals.reduced_bytes * link.gamma_s_per_byte,
    )


def crossover(one: str, other: str, world_size: int, link: Link, **params: Any) -> float | None:
    """The size in bytes at which two algorithms of one collective cost the same; None if one is better at every size.

    >>> round(crossover("recursive-doubling", "ring", 8, Link.of(latency_us=5, gb_per_s=10)))
    440000
    """
    algorithms = [ALGORITHMS[name] for name in (one, other)]
    if algorithms[0].collective != algorithms[1].collective:
        raise UsageError(
            f"{one} is for {algorithms[0].collective}, {other} for {algorithms[1].collective}",
            hint="compare two algorithms of one collective",
        )
    known = {key for each in algorithms for key in each.params}
    for key in params:
        if key not in known:
            raise unknown(f"parameter of {one} or {other}", key, known)
    paths = [_path(algorithm, world_size, params) for algorithm in algorithms]
    messages = paths[0].messages - paths[1].messages
    slopes = [float(path.fraction) * link.beta_s_per_byte + float(path.reduced) * link.gamma_s_per_byte for path in paths]
    if slopes[0] == slopes[1] or messages == 0:
        return None
    size = messages * link.alpha_s / (slopes[1] - slopes[0])
    return size if size > 0 else None


def cheapest(collective: str, world_size: int, num_bytes: float, link: Link) -> list[Price]:
    """All algorithms of a collective, the cheapest first, with default parameters; UnknownName for what is no collective.

    >>> [each.name for each in cheapest("all_reduce", 8, 64, Link.of(5, 10))][:2]
    ['recursive-doubling', 'halving-doubling']
    """
    prices = [predict(each.name, world_size, num_bytes, link) for each in algorithms_for(collective)]
    return sorted(prices, key=lambda each: each.seconds)


def best_chunks(name: str, world_size: int, num_bytes: float, link: Link, most: int = 1024) -> int:
    """The number of chunks, a power of two, at which a pipelined algorithm costs least.

    >>> best_chunks("chain-broadcast", 8, 2**20, Link.of(5, 10)), best_chunks("chain-broadcast", 8, 64, Link.of(5, 10))
    (8, 1)
    """
    most = check_int("most", most)
    choices = [1 << level for level in range(most.bit_length())]
    return min(choices, key=lambda chunks: predict(name, world_size, num_bytes, link, chunks=chunks).seconds)


def _path(algorithm: Algorithm, world_size: int, params: dict[str, Any]) -> Path:
    return algorithm.critical(world_size, **{key: value for key, value in params.items() if key in algorithm.params})
