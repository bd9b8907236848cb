"""The few elements of a tensor that a picture shows, before a collective and after it.

A picture needs some dozens of elements, so that is all that is copied: evenly spaced ones, the same
places before and after.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import torch

from ..wire import TensorSample

LIMIT = 64
_KEPT = 64
_TAKEN_IN_A_CELL = 64  # a loop of thousands of calls is not looked at call by call


def stride_of(num_elements: int, limit: int) -> int:
    """Every how-manieth element is shown.

    >>> stride_of(64, 64), stride_of(65, 64), stride_of(1_000_000, 64)
    (1, 2, 15625)
    """
    return max(1, -(-num_elements // limit))


class BeforeSamples:
    """Remembers how tensors looked when they last entered a collective, by their place in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], tuple[str, torch.Tensor]] = OrderedDict()
        self._taken = 0

    def begin_cell(self) -> None:
        """Samples are taken of a cell's first calls only."""
        self._taken = 0

    def take(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy a few elements of a call's tensor; does nothing for calls without one."""
        value = args[0] if args else kwargs.get("tensor")
        if not isinstance(value, torch.Tensor) or not value.is_contiguous():
            return
        count = value.numel()
        key = (value.data_ptr(), count)
        self._taken += 1
        if self._taken > _TAKEN_IN_A_CELL:
            self._kept.pop(key, None)  # no picture rather than an old one
            return
        flat = value.detach().view(-1)
        self._kept[key] = (op, (flat[:: stride_of(count, LIMIT)] if count > LIMIT else flat).clone())
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def of(self, tensor: torch.Tensor) -> tuple[str, torch.Tensor] | None:
        """(op, elements) of a tensor's last entry into a collective."""
        return self._kept.get((tensor.data_ptr(), tensor.numel()))


def sample(rank: int, name: str, tensor: torch.Tensor, before: BeforeSamples, limit: int = LIMIT) -> TensorSample:
    """A tensor as a record: up to `limit` elements, statistics over all of it, and a digest."""
    data = tensor.detach()
    flat = data.reshape(-1)
    step = stride_of(flat.numel(), limit)
    shown = flat[::step].to("cpu")
    entered = before.of(tensor) if data.is_contiguous() and limit == LIMIT else None
    numbers = _as_numbers(flat)
    finite = numbers[~torch.isnan(numbers)] if numbers.numel() else numbers
    host = data.to("cpu").contiguous()
    return TensorSample(
        rank=rank, name=name, shape=tuple(tensor.shape), dtype=str(tensor.dtype)[6:], device=str(tensor.device),
        num_bytes=tensor.numel() * tensor.element_size(),
        values=tuple(_plain(shown)), indices=tuple(range(0, flat.numel(), step)),
        before=tuple(_plain(entered[1].to("cpu"))) if entered else None, op=entered[0] if entered else "",
        minimum=float(finite.min()) if finite.numel() else None,
        maximum=float(finite.max()) if finite.numel() else None,
        mean=float(finite.double().mean()) if finite.numel() else None,
        num_nan=int(numbers.numel() - finite.numel()),
        digest=hashlib.blake2b(host.reshape(-1).view(torch.uint8).numpy() if host.numel() else b"", digest_size=12).hexdigest(),
    )  # fmt: skip


def _as_numbers(flat: torch.Tensor) -> torch.Tensor:
    if flat.is_complex():
        return flat.abs()
    return flat.float() if flat.dtype in (torch.float16, torch.bfloat16, torch.bool) else flat


def _plain(values: torch.Tensor) -> list[Any]:
    """Python numbers; complex ones as their magnitude, since a cell of a grid shows one number."""
    if values.is_complex():
        values = values.abs()
    return [int(v) if isinstance(v, bool) else v for v in values.tolist()]
