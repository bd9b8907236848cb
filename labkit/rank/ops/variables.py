"""Variables of this rank: as a picture's sample, as plain values, or as raw bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy
import torch

from ...errors import UsageError
from ...registry import unknown
from ...units import format_bytes
from ..cell import show
from ..context import RankContext
from ..dispatch import OPS, Buffers
from ..samples import LIMIT, plain_tensor, sample

PULL_LIMIT_BYTES = 256 * 2**20


def find(context: RankContext, name: str) -> Any:
    """A variable, or an attribute or item path of one ("model.weight", "grads[0]")."""
    base = name.replace("[", ".").split(".", 1)[0].strip()
    if base not in context.namespace:
        raise unknown("variable", base, context.user_names())
    if base == name:
        return context.namespace[name]
    return eval(compile(name, "name", "eval"), context.namespace)  # noqa: S307 - the learner's own expression


@OPS.register("sample")
def sample_op(context: RankContext, *, name: str, limit: int = LIMIT) -> Any:
    """A TensorSample of a variable; a dictionary if this rank does not have it, or if it is a module."""
    base = name.replace("[", ".").split(".", 1)[0].strip()
    if base not in context.namespace:
        return {"missing": context.user_names()}
    value = find(context, name)
    if isinstance(value, torch.nn.Module):
        return {"module": name}
    if not isinstance(value, torch.Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise UsageError(f"{name} is a {type(value).__name__}, not a tensor", hint="use world.pull") from None
    return sample(context.rank, name, value, context.tap.samples, limit)


@OPS.register("pull")
def pull(context: RankContext, *, shell: Any, name: str, limit_bytes: int = PULL_LIMIT_BYTES) -> Any:
    """Numbers as raw bytes, plain values as JSON, anything else as what it looks like."""
    value = find(context, name)
    if isinstance(value, torch.Tensor):
        value = plain_tensor(value.detach()).to("cpu")
        narrow = value.is_floating_point() and value.element_size() < 4 and value.dtype != torch.float16
        value = (value.float() if narrow else value).contiguous().numpy()
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
        if value.nbytes > limit_bytes:
            raise UsageError(
                f"{name} holds {format_bytes(value.nbytes)}",
                hint=f"pull a part of it ({name}[:1000]) or give limit_bytes=",
            )
        plain = {"kind": "array", "dtype": value.dtype.str, "shape": list(value.shape)}
        return Buffers(plain, [value.tobytes()])
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        shown = show(value, shell, limit=2000)
        return {"kind": "shown", "type": shown.type, "text": shown.text, "cut": shown.cut}
    if len(text) > limit_bytes:
        raise UsageError(f"{name} is {format_bytes(len(text))} of text", hint="pull a part of it")
    return {"kind": "json", "text": text}


@OPS.register("push")
def push(context: RankContext, *, buffers: list[Any], values: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Set variables: plain values as they are, arrays as tensors on this rank's device."""
    for name, value in values.items():
        context.namespace[name] = json.loads(value)
    for (name, form), data in zip(arrays.items(), buffers, strict=True):
        array = numpy.frombuffer(data, dtype=numpy.dtype(form["dtype"])).reshape(form["shape"]).copy()
        context.namespace[name] = torch.from_numpy(array).to(context.device)
