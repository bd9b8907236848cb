"""The result of a collective went into a copy that nobody holds: `dist.all_reduce(x.contiguous())`.

Four things must be so. Only the call itself refers to the tensor; its memory belongs to no other tensor; its expression makes
a new tensor out of one that lives on (a fresh `torch.ones(1)` is a way to synchronize, and right); and this rank is one that
gets a result.
"""

from __future__ import annotations

import ast
import sys
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _storage_Use_Count as storage_use_count

from . import CHECKS, Check, Notes, given, group_of, learners_frame, site_of
from ._origins import origins
from ._source import argument_node, call_node

_RESULT = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "recv": "tensor", "scatter": "tensor",
    "all_gather_into_tensor": "output_tensor", "reduce_scatter_tensor": "output", "reduce_scatter": "output",
    "all_to_all_single": "output",
}  # fmt: skip
_LOOKS = 3  # at one line of a cell
_PATIENCE_S = 0.05  # gloo's thread lets go of a tensor a moment after its call has returned


def references(args: tuple[Any, ...], at: int) -> int:
    """How many refer to an argument; the same number for each that only the call refers to."""
    return sys.getrefcount(args[at])


_ALONE = references((torch.empty(0),), 0)


@CHECKS.register("thrown-away")
class ThrownAway(Check):
    """Looks at how many refer to the tensor of a call that has returned."""

    kind = "thrown-away"

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self._looks: Counter[tuple[CodeType, int]] = Counter()

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Nearly every tensor has a name, which is asked first."""
        named = (kwargs.get(_RESULT.get(name, "")), None)  # one more that refers to it, beside the dictionary
        others = (references(args, 0) if args else references(named, 0) - 1) - _ALONE
        if others > 1 or result is not None:
            return
        keyword = _RESULT.get(name)
        tensor = given(args, kwargs, 0, keyword or "")
        if keyword is None or not isinstance(tensor, torch.Tensor):
            return
        if others and tensor._use_count() == 1:  # no more than the one that torch holds while its own threads have the tensor
            return
        frame = learners_frame()
        if frame is not None and not _only_gives(name, args, kwargs):
            self._look(name, keyword, tensor, frame)

    def _look(self, name: str, keyword: str, tensor: torch.Tensor, frame: FrameType) -> None:
        node = call_node(frame)
        made = argument_node(node, 0, keyword) if node is not None else None
        if made is None or isinstance(made, (ast.Name, ast.Attribute, ast.NamedExpr)):
            return
        place = (frame.f_code, frame.f_lasti)
        if self._looks[place] >= _LOOKS:  # a loop: its first turns have told
            return
        self._looks[place] += 1
        found = origins(made, frame)
        if found and not any(_overlap(tensor, each) for each in found.values()) and _nobody_else(tensor):
            self.notes.say(self.kind, name, site_of(frame), given=ast.unparse(made), origin=next(iter(found)))

    def close(self, ok: bool) -> None:
        """The next cell begins anew."""
        self._looks.clear()


def _only_gives(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this rank gets no result: the root of a broadcast, and all but the root of a reduce."""
    if name not in ("broadcast", "reduce"):
        return False
    side = "src" if name == "broadcast" else "dst"
    in_group = kwargs.get(f"group_{side}")
    root = given(args, kwargs, 1, side)
    is_root = dist.get_rank(group_of(args, kwargs)) == in_group if in_group is not None else dist.get_rank() == root
    return bool(is_root == (name == "broadcast"))


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _overlap(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are in the same stretch of memory, also through an array or a file that they share."""
    try:
        (begin, end), (other_begin, other_end) = _memory(tensor), _memory(other)
    except (RuntimeError, NotImplementedError):  # a tensor without a storage of its own
        return True
    return begin < other_end and other_begin < end


def _nobody_else(tensor: torch.Tensor) -> bool:
    """Whether neither torch nor another tensor refers to this one or its memory."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        storage = tensor.untyped_storage()
        if tensor._use_count() == 1 and storage_use_count(storage._cdata) <= _STORAGE_ALONE:
            return True
        if time.monotonic() > end_s:
            return False
        del storage
        time.sleep(5e-5)


def _alone() -> int:
    storage = (tensor := torch.empty(1)).untyped_storage()
    assert tensor is not None
    return int(storage_use_count(storage._cdata))


_STORAGE_ALONE = _alone()
