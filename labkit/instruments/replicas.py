"""Whether the ranks hold the same: every model, optimizer and tensor, part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy

from ..driver.core import Replies, WorldCore, instrument
from ..phrases import fold
from ..registry import unknown
from ..tensors.replicas import Part, Replica, Replicas
from ..timings import VARIABLES_S

_KINDS = ("model", "optimizer", "tensor")


@instrument
def replicas(world: WorldCore, name: str = "") -> Replicas:
    """Compare what all ranks hold under one name: names, types, shapes, values; which part differs first, and where.

    Without `name`, every model, optimizer and tensor. Only checksums travel; the values of a part that differs are asked for
    afterwards, to say by how much. UnknownName if no rank has the variable.

    >>> world.replicas("net")                                            # doctest: +SKIP
    net, Linear: fc.weight differs on rank 2; ranks 0 and 1 agree: max |difference| 0.12
    """
    limit_s = max(world.deadline_s, VARIABLES_S)
    replies = world.request("replicas", {"name": name}, deadline_s=limit_s)
    values = {outcome.rank: outcome.value for outcome in replies.outcomes}
    if all("missing" in value for value in values.values()):
        raise unknown("variable", name, {known for value in values.values() for known in value["missing"]})
    held = {rank: {each["name"]: each for each in value.get("held", ())} for rank, value in values.items()}
    names = list(dict.fromkeys(each for things in held.values() for each in things))
    everywhere = [each for each in names if all(each in things for things in held.values())]
    partly = tuple((each, tuple(rank for rank in held if each in held[rank])) for each in names if each not in everywhere)
    compared = [_compare(each, {rank: things[each] for rank, things in held.items()}) for each in everywhere]
    compared.sort(key=lambda replica: _KINDS.index(replica.kind))
    told = tuple(_with_size(world, replica, limit_s) for replica in compared)
    return Replicas(world.world_size, told, partly, bool(name))


def _compare(name: str, things: Mapping[int, Mapping[str, Any]]) -> Replica:
    """One thing on all ranks."""
    first = next(iter(things.values()))
    by_rank = {rank: {part[0]: part[1:] for part in thing["parts"]} for rank, thing in things.items()}
    order = list(dict.fromkeys(part for parts in by_rank.values() for part in parts))
    types = Counter(thing["type"] for thing in things.values())
    left_out = max(thing["left_out"] for thing in things.values())
    note = f"{left_out} that every rank holds a shard of are left out" if left_out else ""
    kind = first["kind"] if len({thing["kind"] for thing in things.values()}) == 1 else "tensor"
    return Replica(name, kind, " or ".join(types), tuple(_part(each, by_rank) for each in order), note)


def _part(name: str, by_rank: Mapping[int, Mapping[str, Any]]) -> Part:
    """One part: what differs of it, and the ranks that have the same."""
    found = {rank: parts.get(name) for rank, parts in by_rank.items()}
    kind, dtype, shape, _ = next(part for part in found.values() if part is not None)
    aspects = (
        ("presence", lambda part: part is not None),
        ("dtype", lambda part: part[1]),
        ("shape", lambda part: tuple(part[2])),
    )
    for what, aspect in (*aspects, ("values", lambda part: part[3])):
        sides = fold([(rank, aspect(part)) for rank, part in found.items()], key=lambda value: value)
        if len(sides) > 1:
            sides.sort(key=lambda side: -len(side[0]))
            told = kind == "setting" or what in ("dtype", "shape")
            detail = ", ".join(f"{_written(value)} on {_ranks(ranks)}" for ranks, value in sides[:4]) if told else ""
            return Part(name, kind, dtype, tuple(shape), what, tuple(ranks for ranks, _ in sides), detail=detail)
    return Part(name, kind, dtype, tuple(shape), sides=(tuple(found),))


def _written(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _with_size(world: WorldCore, replica: Replica, limit_s: float) -> Replica:
    """The replica with the size of its first difference."""
    found = replica.differing
    if not found or found[0].what != "values" or found[0].kind == "setting":
        return replica
    payload = {"name": replica.name, "part": found[0].name}
    replies = world.request("replica_values", payload, deadline_s=limit_s, may_fail=True)
    if not all(outcome.ok for outcome in replies.outcomes):
        return replica
    told = replace(
        found[0], difference=_difference(replies, found[0]), of_sample=any(o.value["sampled"] for o in replies.outcomes)
    )
    return replace(replica, parts=tuple(told if part.name == told.name else part for part in replica.parts))


def _difference(replies: Replies, part: Part) -> float:
    """The largest |difference| of any rank from the first side."""
    values = {o.rank: numpy.frombuffer(b[0], numpy.float64) for o, b in zip(replies.outcomes, replies.buffers, strict=True)}
    beside = values[part.sides[0][0]]
    with numpy.errstate(invalid="ignore"):  # infinity from infinity
        return max(_largest(values[side[0]], beside) for side in part.sides[1:])


def _largest(values: Any, beside: Any) -> float:
    same = (values == beside) | (numpy.isnan(values) & numpy.isnan(beside))
    return float(numpy.where(same, 0.0, numpy.abs(values - beside)).max(initial=0.0))
