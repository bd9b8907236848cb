"""Variables of the ranks: shown, fetched, and set. Numbers travel as raw bytes, plain values as JSON."""

from __future__ import annotations

import json
import keyword
from collections.abc import Sequence
from typing import Any

import numpy

from ..driver.checks import raise_first
from ..driver.core import WorldCore, instrument
from ..errors import UnknownName, UsageError, join_ranks
from ..registry import unknown
from ..tensors.replicas import Replicas
from ..timings import VARIABLES_S
from ..vocabulary import OWN_NAMES
from ..wire import TensorTable
from .replicas import replicas


@instrument
def tensors(world: WorldCore, name: str, limit: int = 64) -> TensorTable | Replicas:
    """A variable of all ranks as rank x element, before and after the last collective it entered.

    Shows the first `limit` elements of each rank; of a module, its parameters. UnknownName if no rank has it.
    """
    replies = world.request("sample", {"name": name, "limit": limit}, deadline_s=max(world.deadline_s, VARIABLES_S))
    samples, missing, known = [], [], set()
    for outcome in replies.outcomes:
        if isinstance(outcome.value, dict) and "module" in outcome.value:
            return replicas(world, name)
        if isinstance(outcome.value, dict):
            missing.append(outcome.rank)
            known |= set(outcome.value["missing"])
        else:
            samples.append(outcome.value)
    if not samples:
        raise unknown("variable", name, known)
    return TensorTable(name, tuple(samples), tuple(missing))


@instrument
def pull(world: WorldCore, name: str, ranks: Sequence[int] | int | None = None, limit_bytes: int = 256 * 2**20) -> dict[int, Any]:
    """A variable's value by rank: numbers as numpy arrays, plain values as they are, others as text.

    UnknownName if a rank does not have it; `ranks` asks only those that do.

    >>> world.pull("loss", ranks=[0, 1])                                 # doctest: +SKIP
    """
    payload = {"name": name, "limit_bytes": limit_bytes}
    replies = world.request("pull", payload, ranks, deadline_s=max(world.deadline_s, VARIABLES_S), may_fail=True)
    have = [outcome.rank for outcome in replies.outcomes if outcome.ok]
    lack = [o.rank for o in replies.outcomes if not o.ok and o.error is not None and o.error.type == UnknownName.__name__]
    if have and lack and len(have) + len(lack) == len(replies.outcomes):
        verb, there = ("has", "its value") if len(have) == 1 else ("have", "their values")
        raise UnknownName(
            f"{join_ranks(lack)} {'has' if len(lack) == 1 else 'have'} no variable {name!r}; {join_ranks(have)} {verb} one",
            hint=f"world.pull({name!r}, ranks={have}) gives {there}", ranks=tuple(lack), kind="variable", name=name,
        )  # fmt: skip
    raise_first("pull", replies.outcomes)
    pairs = zip(replies.outcomes, replies.buffers, strict=True)
    return {outcome.rank: unpack(outcome.value, buffers) for outcome, buffers in pairs}


@instrument
def push(world: WorldCore, ranks: Sequence[int] | int | None = None, **values: Any) -> None:
    """Set variables on ranks: numbers become tensors on the rank's device, plain values stay as they are.

    >>> world.push(learning_rate=0.1)                                    # doctest: +SKIP
    """
    plain, arrays, buffers = pack(values)
    limit_s = max(world.deadline_s, VARIABLES_S)
    world.request("push", {"values": plain, "arrays": arrays}, ranks, deadline_s=limit_s, buffers=buffers)


def check_name(name: object) -> str:
    """A name that a variable on the ranks can have; UsageError for others, and for those that a rank needs itself.

    >>> check_name("batch")
    'batch'
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a variable name", hint="use letters, digits and _")
    if name in OWN_NAMES or (name.startswith("__") and name.endswith("__")):
        raise UsageError(f"{name} is a name that the ranks need themselves", hint="take another one")
    return name


def unpack(form: Any, buffers: list[bytes]) -> Any:
    """A pulled value: a numpy array, a plain value, or the text of something else."""
    if form["kind"] == "array":
        return numpy.frombuffer(buffers[0], dtype=numpy.dtype(form["dtype"])).reshape(form["shape"]).copy()
    if form["kind"] == "json":
        return json.loads(form["text"])
    return f"{form['text']}{' ...' if form['cut'] else ''}"


def pack(values: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any], list[bytes]]:
    """Values to push as (JSON texts, array forms, raw buffers); UsageError for one that can't be sent."""
    plain: dict[str, str] = {}
    arrays: dict[str, Any] = {}
    buffers: list[bytes] = []
    for name, given in values.items():
        check_name(name)
        value = (
            _from_tensor(name, given) if hasattr(given, "detach") and hasattr(given, "cpu") else given
        )  # a file has detach too
        if isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufc":
            value = numpy.asarray(value, dtype=value.dtype.newbyteorder("="))  # torch knows only this machine's byte order
            arrays[name] = {"dtype": value.dtype.str, "shape": list(value.shape)}
            buffers.append(numpy.ascontiguousarray(value).tobytes())
            continue
        try:
            plain[name] = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            raise UsageError(
                f"{name} is a {type(value).__name__}, which can't be sent to a rank",
                hint="push numbers, text, lists or dicts, and make the rest in a rank cell",
            ) from None
    return plain, arrays, buffers


def _from_tensor(name: str, tensor: Any) -> Any:
    try:
        return tensor.detach().cpu().numpy()
    except TypeError as error:  # a dtype that numpy does not have, such as bfloat16
        raise UsageError(
            f"{name} can't be sent to a rank: {error}", hint="push it as float32 and convert it in a rank cell"
        ) from None
