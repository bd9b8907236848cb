"""What a call's arguments say and the process group's hook does not see: tags of messages, and splits of an all-to-all."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

_TAG_AT = {"send": 3, "recv": 3, "isend": 3, "irecv": 3}
SPLIT = ("all_to_all_single", "all_to_all")


def tags(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The tag of each message that the call makes, in order; () if it makes none.

    >>> tags("send", (None, 1), {"tag": 7}), tags("all_reduce", (None,), {})
    ((7,), ())
    """
    place = _TAG_AT.get(name)
    if place is not None:
        tag = args[place] if len(args) > place else kwargs.get("tag", 0)
        return (tag,) if isinstance(tag, int) else ()
    if name == "batch_isend_irecv":
        made = args[0] if args else kwargs.get("p2p_op_list", ())
        return tuple(each.tag for each in made if isinstance(getattr(each, "tag", None), int))
    return ()


def splits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], size: int) -> tuple[int, ...]:
    """What an all-to-all among `size` ranks gives to each, then what it takes from each: rows, or elements of a list's tensors.

    >>> splits("all_to_all_single", (torch.zeros(3), torch.zeros(4), [1, 2], [3, 1]), {}, 2)
    (3, 1, 1, 2)
    """
    names: tuple[str, ...] = ("output", "input", "output_split_sizes", "input_split_sizes")
    if name == "all_to_all":
        names = ("output_tensor_list", "input_tensor_list")
    given = {**dict(zip(names, args, strict=False)), **{key: kwargs[key] for key in names if key in kwargs}}
    try:
        if name == "all_to_all":
            out, into = (tuple(prod(tensor.shape) for tensor in given[key]) for key in reversed(names))
        else:
            out = _parts(given["input"], given.get("input_split_sizes"), size)
            into = _parts(given["output"], given.get("output_split_sizes"), size)
    except (KeyError, TypeError, AttributeError, ValueError):  # torch says what is wrong with them
        return ()
    whole = len(out) == len(into) == size and all(isinstance(part, int) and part >= 0 for part in out + into)
    return out + into if whole else ()


def _parts(tensor: torch.Tensor, sizes: Sequence[int] | None, size: int) -> tuple[int, ...]:
    return tuple(sizes) if sizes else (tensor.shape[0] // size,) * size
