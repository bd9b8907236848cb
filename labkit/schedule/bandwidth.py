"""Algorithm and bus bandwidth, with the field's factors in one table.

Source: nccl-tests, doc/PERFORMANCE.md and GetBw in src/*.cu (gather, scatter, hypercube and alltoallv are in the
code only). algbw = S / t and busbw = algbw * factor, in GB/s of 1e9 bytes.

The commonest mistake is S: for all-gather, reduce-scatter, all-to-all, gather and scatter it is the *total*, the size
that one rank gives or gets from one other times the number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..registry import unknown
from ..units import algbw_gb_per_s
from .checks import check_number
from .model import check_world_size


@dataclass(frozen=True)
class Factor:
    """How a collective is counted: S = count * `times`, and busbw = algbw * `moved` * (n - 1)/n (or * 1 if `flat`).

    `times` is "1", "n" or "n - 1"; `count` is what one call of the collective takes as its count, in bytes.
    """

    moved: int
    times: str = "1"
    flat: bool = False
    note: str = ""


FACTORS: dict[str, Factor] = {
    "all_reduce": Factor(2, note="assumes a flat fabric of point-to-point links"),
    "reduce_scatter": Factor(1, "n", note="S is the whole input, not the piece a rank gets"),
    "all_gather": Factor(1, "n", note="S is the whole output, not the piece a rank gives"),
    "all_to_all": Factor(1, "n", note="S is one rank's row of blocks"),
    "gather": Factor(1, "n"),
    "scatter": Factor(1, "n"),
    "all_to_all_v": Factor(1, note="S is the largest row of all ranks"),
    "broadcast": Factor(1, flat=True, note="the root's link is the bottleneck"),
    "reduce": Factor(1, flat=True, note="the root's link is the bottleneck"),
    "send_recv": Factor(1, flat=True),
    "hypercube": Factor(1, "n - 1", flat=True),
}


def busbw_factor(collective: str, world_size: int) -> float:
    """busbw over algbw; 0 on one rank, which sends nothing.

    >>> busbw_factor("all_reduce", 4), busbw_factor("all_gather", 4), busbw_factor("broadcast", 4)
    (1.5, 0.75, 1.0)
    """
    check_world_size(world_size)
    factor = _factor(collective)
    return 1.0 if factor.flat else factor.moved * (world_size - 1) / world_size


def total_bytes(collective: str, count_bytes: float, world_size: int) -> float:
    """S from the bytes of one count: of a rank's piece where pieces are gathered or scattered.

    >>> total_bytes("all_gather", 1000, 4), total_bytes("all_reduce", 1000, 4)
    (4000, 1000)
    """
    check_world_size(world_size)
    times = {"1": 1, "n": world_size, "n - 1": world_size - 1}
    check_number("count_bytes", count_bytes)
    return count_bytes * times[_factor(collective).times]


def busbw_gb_per_s(collective: str, num_bytes: float, seconds: float, world_size: int) -> float:
    """Bus bandwidth of S = `num_bytes` moved in `seconds`.

    >>> busbw_gb_per_s("all_reduce", 1e9, 0.1, 4)
    15.0
    """
    return algbw_gb_per_s(check_number("num_bytes", num_bytes), seconds) * busbw_factor(collective, world_size)


def _factor(collective: str) -> Factor:
    try:
        return FACTORS[collective]
    except KeyError:
        raise unknown("collective", collective, FACTORS) from None
