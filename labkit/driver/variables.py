"""How variables travel between the kernel and the ranks: numbers as raw bytes, plain values as JSON."""

from __future__ import annotations

import json
import keyword
from typing import Any

import numpy

from ..errors import UsageError
from ..launching import OWN_NAMES


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
    """Values to push as (JSON texts, array forms, raw buffers); UsageError for one that does not travel."""
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
                f"{name} is a {type(value).__name__}, which does not travel",
                hint="push numbers, text, lists or dicts, and make the rest in a rank cell",
            ) from None
    return plain, arrays, buffers


def _from_tensor(name: str, tensor: Any) -> Any:
    try:
        return tensor.detach().cpu().numpy()
    except TypeError as error:  # a dtype that numpy does not have, such as bfloat16
        raise UsageError(f"{name} does not travel: {error}", hint="push it as float32 and convert it in a rank cell") from None
