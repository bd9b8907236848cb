"""The part of torch that the cells of demos and tests use, on numpy: enough to run them, not to train with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy

from ...errors import UsageError

DTYPES = ("float16", "float32", "float64", "int32", "int64", "uint8", "bool")
REDUCE = {
    "SUM": numpy.add, "AVG": numpy.add, "MAX": numpy.maximum, "MIN": numpy.minimum, "PRODUCT": numpy.multiply,
}  # fmt: skip


class Tensor(numpy.ndarray[Any, Any]):
    """An array that answers to torch's names."""

    def numel(self) -> int:
        return int(self.size)

    def element_size(self) -> int:
        return int(self.itemsize)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return as_tensor(self.copy())

    def to(self, kind: Any) -> Tensor:
        return as_tensor(self.astype(kind))

    def view(self, *shape: Any) -> Any:  # type: ignore[override]
        """torch's view is numpy's reshape; numpy's own view (by dtype or type) is kept for numpy itself."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if sizes and all(isinstance(size, int) for size in sizes):
            return self.reshape(sizes)
        return super().view(*shape)

    def fill_(self, value: float) -> Tensor:
        self[...] = value
        return self

    def copy_(self, other: Any) -> Tensor:
        self[...] = other
        return self

    def add_(self, other: Any) -> Tensor:
        return self.copy_(self + other)

    def sub_(self, other: Any) -> Tensor:
        return self.copy_(self - other)

    def mul_(self, other: Any) -> Tensor:
        return self.copy_(self * other)

    def div_(self, other: Any) -> Tensor:
        return self.copy_(self / other)

    def zero_(self) -> Tensor:
        return self.fill_(0)

    # a reduction stays a tensor, so that a collective can work on it in place
    def sum(self, *args: Any, **kwargs: Any) -> Any:
        return as_tensor(numpy.asarray(self).sum(*args, **kwargs))

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        return as_tensor(numpy.asarray(self).mean(*args, **kwargs))

    def max(self, *args: Any, **kwargs: Any) -> Any:
        return as_tensor(numpy.asarray(self).max(*args, **kwargs))

    def min(self, *args: Any, **kwargs: Any) -> Any:
        return as_tensor(numpy.asarray(self).min(*args, **kwargs))

    def __getitem__(self, key: Any) -> Any:
        return as_tensor(super().__getitem__(key))

    def __repr__(self) -> str:
        return f"tensor({numpy.array2string(numpy.asarray(self), separator=', ')})"


def as_tensor(value: Any, dtype: Any = None) -> Tensor:
    """Numbers as a tensor; Python floats become float32, as in torch.

    >>> as_tensor([1.0, 2.0]).dtype.name, as_tensor([1, 2]).tolist()
    ('float32', [1, 2])
    """
    array = numpy.asarray(value, dtype=dtype)
    if dtype is None and array.dtype == numpy.float64 and not isinstance(value, (numpy.ndarray, numpy.generic)):
        array = array.astype(numpy.float32)
    return array.view(Tensor)


def _sized(make: Any) -> Any:
    def made(*shape: Any, dtype: Any = numpy.float32, device: Any = None) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return as_tensor(make(sizes, dtype))

    return made


def _full(shape: Any, value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    kind = dtype or (numpy.float32 if isinstance(value, float) else None)
    return as_tensor(numpy.full(shape, numpy.asarray(value), dtype=kind))


def _arange(*args: Any, dtype: Any = None, device: Any = None) -> Tensor:
    kind = dtype or (numpy.float32 if any(isinstance(arg, float) for arg in args) else numpy.int64)
    return as_tensor(numpy.arange(*args, dtype=kind))


class FakeTorch:
    """`torch` in a fake rank; what it does not have says so."""

    __name__ = "torch"

    def __init__(self, dist: Any) -> None:
        self.distributed = dist
        self.Tensor = Tensor
        self.zeros, self.ones, self.empty = _sized(numpy.zeros), _sized(numpy.ones), _sized(numpy.zeros)
        self.full, self.arange = _full, _arange
        self.zeros_like = lambda tensor: as_tensor(numpy.zeros_like(numpy.asarray(tensor)))
        self.ones_like = lambda tensor: as_tensor(numpy.ones_like(numpy.asarray(tensor)))
        self.stack = lambda tensors, dim=0: as_tensor(numpy.stack(tensors, axis=dim))
        self.cat = lambda tensors, dim=0: as_tensor(numpy.concatenate(tensors, axis=dim))
        self.equal = lambda one, two: bool(numpy.array_equal(one, two))
        self.allclose = lambda one, two: bool(numpy.allclose(one, two))
        self.no_grad = _NoGrad
        for name in DTYPES:
            setattr(self, name, numpy.dtype(name))

    def tensor(self, value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        return as_tensor(numpy.array(value) if isinstance(value, numpy.ndarray) else value, dtype)

    def manual_seed(self, seed: int) -> None:
        """Random numbers are not among what a fake rank has; a seed does no harm."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(f"the fake torch has no {name}", hint="try this cell in a real world")


class _NoGrad:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


REDUCE_OPS = SimpleNamespace(**{name: name for name in REDUCE})
