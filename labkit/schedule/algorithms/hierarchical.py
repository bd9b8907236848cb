"""All-reduce in two levels: reduce-scatter inside each host, all-reduce across hosts, all-gather inside.

Ranks are numbered host by host. All three parts are rings; rank j of every host looks after the same part of the
tensor, so across hosts there are as many rings at once as a host has ranks, each with its own part.

Source of the formulas: counted, as the sum of the three rings. h hosts, l ranks on each, p = hl.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...errors import UsageError
from ..algorithm import Algorithm, Formulas, Param, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import ranks


def split(world_size: int, ranks_per_host: int) -> tuple[int, int]:
    """Hosts and ranks on each; 0 ranks per host means: as many as fill two hosts or more alike, at most 8.

    >>> split(16, 0), split(12, 3), split(8, 0), split(7, 0)
    ((2, 8), (4, 3), (2, 4), (7, 1))
    """
    if not ranks_per_host:
        fitting = [local for local in range(1, 9) if world_size % local == 0 and local < world_size]
        ranks_per_host = max(fitting, default=1)
    if world_size % ranks_per_host:
        raise UsageError(
            f"{world_size} ranks can't be divided into hosts of {ranks_per_host}",
            hint="every host needs the same number of ranks",
        )
    return world_size // ranks_per_host, ranks_per_host


def build(world_size: int, ranks_per_host: int) -> Schedule:
    hosts, local = split(world_size, ranks_per_host)

    def inside(part_before: int, index: int, adding: bool) -> Step:
        rank = ranks(world_size)
        first, j = rank - rank % local, rank % local
        part = (j - part_before - index) % local  # a part is `hosts` chunks
        phase = "reduce-scatter inside" if adding else "all-gather inside"
        to = first + (j + 1) % local
        return make_step(rank, to, part * hosts, (part + 1) * hosts, reduce=adding, phase=phase)

    def across(index: int) -> Step:
        rank = ranks(world_size)
        chunk = (rank % local) * hosts + (rank // local - 1 - index) % hosts
        to = (rank + local) % world_size
        return make_step(rank, to, chunk, reduce=index < hosts - 1, phase="all-reduce across")

    def steps() -> Iterator[Step]:
        yield from (inside(1, index, adding=True) for index in range(local - 1))
        yield from (across(index) for index in range(2 * (hosts - 1)))
        yield from (inside(0, index, adding=False) for index in range(local - 1))

    return Schedule("hierarchical", "all_reduce", world_size, world_size, steps, 0, {"ranks_per_host": local})


def num_steps(world_size: int, ranks_per_host: int) -> int:
    hosts, local = split(world_size, ranks_per_host)
    return 2 * (local - 1) + 2 * (hosts - 1)


def reduced(world_size: int, ranks_per_host: int) -> Fraction:
    """What each rank adds: its parts inside, then its share of one part across; together n(p - 1)/p."""
    hosts, local = split(world_size, ranks_per_host)
    return Fraction(local - 1, local) + Fraction(hosts - 1, hosts * local)


def share(rank: int, world_size: int, ranks_per_host: int) -> Share:
    return Share("member", num_steps(world_size, ranks_per_host), 2 * reduced(world_size, ranks_per_host))


def path(world_size: int, ranks_per_host: int) -> Path:
    adds = reduced(world_size, ranks_per_host)
    return Path(num_steps(world_size, ranks_per_host), 2 * adds, adds)


declare(
    Algorithm(
        name="hierarchical",
        title="Two levels: inside hosts, then across",
        collective="all_reduce",
        teaches=(
            "Links inside a host are many times faster than the network between hosts. So the ranks of a host first share the "
            "sum out among themselves, then rank j of every host exchanges part j with the other hosts, and then each host "
            "puts its parts together again. A rank sends as many bytes as in the flat ring, but only 1/l of them cross the "
            "network, and only 2(h - 1) steps wait for it instead of 2(p - 1)."
        ),
        formulas=Formulas(
            "2(l - 1) + 2(h - 1)",
            "2n(p - 1)/p, of that 2n(h - 1)/p across hosts",
            "2(l + h - 2)α + 2n(p - 1)/p β + n(p - 1)/p γ",
        ),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
        params={"ranks_per_host": Param(0, "the ranks on each host, which must divide the world; 0 chooses")},
    )
)
