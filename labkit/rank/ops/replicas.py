"""What this rank holds of models, optimizers and tensors: each part with its type, its shape and a checksum, and no values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...errors import LabkitError
from ...registry import unknown
from ..context import RankContext
from ..dispatch import OPS, Buffers
from ..samples import checksum, plain_tensor, stride_of
from .variables import find

_MOST_VALUES = 1 << 20  # elements that are sent of a part that differs


@OPS.register("replicas")
def replicas(context: RankContext, *, name: str = "") -> dict[str, Any]:
    """Every model, optimizer and tensor by name, or the one called `name`."""
    if name:
        base = name.replace("[", ".").split(".", 1)[0].strip()
        if base not in context.namespace:
            return {"missing": context.user_names()}
        things = {name: find(context, name)}
    else:
        things = {each: context.namespace[each] for each in context.user_names()}
    named = _names_of_parameters(things if not name else context.namespace)
    return {"held": [held for each, thing in things.items() if (held := _described(each, thing, named)) is not None]}


@OPS.register("replica_values")
def replica_values(context: RankContext, *, name: str, part: str) -> Any:
    """The numbers of one part, evenly spaced ones if there are too many, as float64."""
    thing = find(context, name)
    named = _names_of_parameters(context.namespace)
    for found, _, value in _parts(thing, named):
        if found == part and isinstance(value, torch.Tensor):
            flat = plain_tensor(value.detach()).reshape(-1)
            step = stride_of(flat.numel(), _MOST_VALUES)
            numbers = torch.view_as_real(flat[::step].contiguous()) if flat.is_complex() else flat[::step]
            return Buffers({"sampled": step > 1}, [numbers.to("cpu", torch.float64).contiguous().numpy().tobytes()])
    raise unknown("part", part, [found for found, _, _ in _parts(thing, named)])


def _described(name: str, thing: Any, named: dict[int, str]) -> dict[str, Any] | None:
    kind = _kind(thing)
    if not kind:
        return None
    parts, left_out = [], 0
    for part, what, value in _parts(thing, named):
        try:
            parts.append([part, what, *_checked(value)])
        except (LabkitError, RuntimeError, NotImplementedError):  # a shard of a larger one, or a tensor without numbers
            left_out += 1
    return {"name": name, "kind": kind, "type": _type(thing), "parts": parts, "left_out": left_out}


def _kind(thing: Any) -> str:
    if isinstance(thing, torch.nn.Module):
        return "model"
    if isinstance(thing, torch.optim.Optimizer):
        return "optimizer"
    return "tensor" if isinstance(thing, torch.Tensor) else ""


def _type(thing: Any) -> str:
    inner = _unwrapped(thing)
    return type(thing).__name__ + (f" of {type(inner).__name__}" if inner is not thing else "")


def _unwrapped(thing: Any) -> Any:
    return thing.module if isinstance(thing, torch.nn.parallel.DistributedDataParallel) else thing


def _parts(thing: Any, named: dict[int, str]) -> Iterator[tuple[str, str, Any]]:
    """(name, kind, value) of each part, in the order in which the thing itself has them."""
    thing = _unwrapped(thing)
    if isinstance(thing, torch.nn.Module):
        yield from ((name, "parameter", value) for name, value in thing.named_parameters())
        yield from ((name, "buffer", value) for name, value in thing.named_buffers())
    elif isinstance(thing, torch.optim.Optimizer):
        number = 0
        for at, group in enumerate(thing.param_groups):
            yield from ((f"{key} of group {at}", "setting", value) for key, value in group.items() if key != "params")
            for parameter in group["params"]:
                of = named.get(id(parameter), f"parameter {number}")
                number += 1
                yield from ((f"{key} of {of}", "state", value) for key, value in thing.state.get(parameter, {}).items())
    else:
        yield "", "tensor", thing


def _checked(value: Any) -> tuple[str, list[int], str]:
    """(dtype, shape, checksum); what is no tensor is compared by its text."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__, [], repr(value)[:200]
    if hasattr(value, "device_mesh"):
        raise RuntimeError("every rank holds another part of a distributed tensor")
    return str(value.dtype)[6:], list(value.shape), checksum(value)


def _names_of_parameters(things: dict[str, Any]) -> dict[int, str]:
    """The names that models give to parameters, so that an optimizer's tensors can be told by them."""
    found: dict[int, str] = {}
    for thing in list(things.values()):
        if isinstance(thing, torch.nn.Module):
            for name, parameter in _unwrapped(thing).named_parameters():
                found.setdefault(id(parameter), name)
    return found
