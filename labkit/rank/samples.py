"""The few elements of a tensor that a picture shows, before a collective and after it.

A picture needs some dozens of elements, so that is all that is copied: evenly spaced ones, the same
places before and after.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from typing import Any

import torch

from ..errors import UsageError
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
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.is_contiguous():
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
    data = plain_tensor(tensor.detach())
    flat = data.reshape(-1)
    step = stride_of(flat.numel(), limit)
    entered = before.of(data) if data.is_contiguous() and limit == LIMIT else None
    low, high, mean, num_nan = _statistics(flat)
    return TensorSample(
        rank=rank, name=name, shape=tuple(tensor.shape), dtype=str(tensor.dtype)[6:], device=str(tensor.device),
        num_bytes=data.numel() * data.element_size(),
        values=tuple(_plain(_as_numbers(flat[::step]).to("cpu"))), indices=tuple(range(0, flat.numel(), step)),
        before=tuple(_plain(_as_numbers(entered[1]).to("cpu"))) if entered else None, op=entered[0] if entered else "",
        minimum=low, maximum=high, mean=mean, num_nan=num_nan, digest=_digest(data.to("cpu").contiguous()),
    )  # fmt: skip


def checksum(tensor: torch.Tensor) -> str:
    """The same text for the same bytes, wherever and however the tensor lies."""
    return _digest(plain_tensor(tensor.detach()).to("cpu").contiguous())


def plain_tensor(data: torch.Tensor) -> torch.Tensor:
    """A tensor with one number per place, whatever it was; UsageError for one that has none."""
    try:
        if data.is_sparse or data.layout != torch.strided:
            data = data.to_dense()
        if data.is_quantized:
            data = data.dequantize()
        data = data.resolve_conj().resolve_neg()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise UsageError(f"this tensor has no numbers to show: {reason}", hint="look at a dense part of it") from None
    if data.device.type == "meta":
        raise UsageError("this tensor has no numbers: it is on the meta device", hint="move it to a real device first")
    return data


def _statistics(flat: torch.Tensor) -> tuple[float | None, float | None, float | None, int]:
    """(minimum, maximum, mean, how many NaN), NaN left out; without a copy of a large tensor where that is possible."""
    numbers = _as_numbers(flat)
    num_nan = int(torch.isnan(numbers).sum()) if numbers.is_floating_point() else 0
    if num_nan:
        numbers = numbers[~torch.isnan(numbers)]
    if not numbers.numel():
        return None, None, None, num_nan
    low, high = numbers.aminmax()
    return float(low), float(high), float(numbers.mean(dtype=torch.float64)), num_nan


def _digest(host: torch.Tensor) -> str:
    """The same text for the same bytes; a quick checksum where a strong one would take seconds."""
    if not host.numel():
        return ""
    data = memoryview(host.reshape(-1).view(torch.uint8).numpy())
    if len(data) > _STRONG_BELOW_BYTES:
        return f"{zlib.crc32(data):08x}-{zlib.adler32(data):08x}"
    return hashlib.blake2b(data, digest_size=12).hexdigest()


_STRONG_BELOW_BYTES = 16 * 2**20
_AS_THEY_ARE = frozenset({torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


def _as_numbers(flat: torch.Tensor) -> torch.Tensor:
    """Numbers that torch can compare and add up: complex ones as magnitudes, narrow ones widened."""
    if flat.is_complex():
        return flat.abs()
    if flat.dtype in _AS_THEY_ARE:
        return flat
    return flat.to(torch.int64) if flat.dtype in (torch.uint16, torch.uint32, torch.uint64) else flat.float()


def _plain(values: torch.Tensor) -> list[Any]:
    return list(values.tolist())
