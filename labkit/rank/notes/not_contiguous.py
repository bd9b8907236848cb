"""A tensor with gaps, given to an operation of gloo's that moves what lies in a row in memory.

Tried with torch 2.15: `all_reduce`, `reduce`, `broadcast`, `scatter` (both sides), the output of `reduce_scatter` and of
`all_to_all_single` take the memory as it lies. `all_gather`, `all_gather_into_tensor`, `gather`, `reduce_scatter_tensor` and
`all_to_all` copy; `send`, `recv` and the input of `all_to_all_single` raise. A transposed tensor has no gaps: the elements that
arrive are the right ones as long as all ranks have the same layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from . import CHECKS, Check, given, group_of, learners_frame, site_of
from ._source import argument, call_node

_MOVED = {
    "all_reduce": ((0, "tensor"),), "reduce": ((0, "tensor"),), "broadcast": ((0, "tensor"),),
    "scatter": ((0, "tensor"), (1, "scatter_list")), "reduce_scatter": ((0, "output"),), "all_to_all_single": ((0, "output"),),
}  # fmt: skip


@CHECKS.register("not-contiguous")
class NotContiguous(Check):
    """Looks at the layout of what is moved as it lies."""

    kind = "not-contiguous"

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Nearly every tensor is contiguous, which is asked first."""
        for at, keyword in _MOVED.get(name, ()):
            value = given(args, kwargs, at, keyword)
            if isinstance(value, torch.Tensor) and value.is_contiguous():
                continue
            for tensor in _tensors(value):
                if not tensor.is_contiguous() and not lies_in_a_row(tensor):
                    self._say(name, args, kwargs, tensor, at, keyword)
                    return

    def _say(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensor: torch.Tensor, at: int, keyword: str) -> None:
        frame = learners_frame()
        if frame is None or self.notes.context.backend.name != "gloo" or dist.get_world_size(group_of(args, kwargs)) < 2:
            return
        node = call_node(frame)
        text = argument(node, at, keyword) if node is not None else ""
        shape, stride = list(tensor.shape), list(tensor.stride())
        self.notes.say(self.kind, name, site_of(frame), shape=shape, stride=stride, name=text if text.isidentifier() else "")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, torch.Tensor) and each.layout is torch.strided:
            yield each


def lies_in_a_row(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one stretch of memory, in whatever order, each its own place.

    >>> table = torch.zeros(4, 3)
    >>> lies_in_a_row(table.t()), lies_in_a_row(table[:, 1]), lies_in_a_row(torch.zeros(1).expand(4))
    (True, False, False)
    """
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
