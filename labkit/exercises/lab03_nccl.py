"""Lab 03, what NCCL believes: its choices by its model, and in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..schedule.nccl_log import NcclCost, recorded
from ..schedule.nccl_model import NcclMachine, choices
from ..units import format_bytes, is_number, is_whole
from ._base import NotYet, as_number, check, function, heard, hold, no_text
from .guess import Answer, Found


@check("03/nccl")
def nccl(answer: Any) -> str:
    """The largest power of two for which NCCL's model takes the tree, on four hosts."""
    machine = NcclMachine(num_ranks=32, num_nodes=4, num_channels=16)
    picked = {1 << power: choices(machine, "all_reduce", 1 << power)[0].algorithm for power in range(6, 33)}
    wanted = max(size for size, algorithm in picked.items() if algorithm == "tree")
    got = as_number(answer)
    no_text("you say", got)
    if got != wanted or isinstance(got, bool):
        hint = "give the largest size in bytes for which the tree is first"
        if is_whole(got) and 0 < got < 1 << 6:  # nobody asks for so few bytes: it is an exponent
            raise NotYet(f"{got} bytes? 2 to the {got} is 1 << {got}", hint=hint)
        said = picked.get(got, "nothing: it is not a power of two from 1 << 6 to 1 << 32") if is_number(got) else "no size"
        raise NotYet(f"at {heard(got)} the model takes {said}", hint=hint)
    alone = choices(NcclMachine(num_ranks=8, num_channels=24), "all_reduce", 1024)[0]
    return f"a tree up to {format_bytes(wanted)} on four hosts; on one host the model takes {alone.algorithm} even for 1 KiB."


@check("03/nccl-log")
def nccl_log(answer: Callable[[NcclCost, NcclCost], Any]) -> Found:
    """The size from which a tuner's option with more bandwidth overtakes one with less latency."""
    function(answer, 2)
    log = recorded("two-sockets")
    pairs = [(log.cost(op, "ring", "LL"), log.cost(op, "ring", "Simple")) for op in ("broadcast", "all_gather")]
    pairs.append((NcclCost("all_reduce", "tree", "LL", 25.2, 8.7), NcclCost("all_reduce", "ring", "Simple", 190.0, 200.0)))
    cases = [(_both(quick, wide), (quick, wide), _overtakes(quick, wide)) for quick, wide in pairs]
    hold(answer, cases, "set both times equal; 1 GB/s is 1e3 bytes per µs", said=format_bytes, tolerance=1e-4)
    before, after = (regime[place].num_bytes for regime, place in zip(log.regimes("broadcast"), (-1, 0), strict=True))
    return Found(
        f"the table says that broadcast changes at {format_bytes(answer(*pairs[0]))}; in the log it takes LL up to "
        f"{format_bytes(before)} and Simple from {format_bytes(after)}.",
        Answer(after / 1024, "KiB"),
    )


def _overtakes(quick: NcclCost, wide: NcclCost) -> float:
    """The bytes at which both take as long."""
    return (wide.latency_us - quick.latency_us) / (1e-3 / quick.gb_per_s - 1e-3 / wide.gb_per_s)


def _both(quick: NcclCost, wide: NcclCost) -> str:
    one, other = (f"{each.latency_us:g} µs, {each.gb_per_s:g} GB/s" for each in (quick, wide))
    return f"for {one} and {other}"
