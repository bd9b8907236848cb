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
from ._liveness import made_by, never_read_again
from ._origins import origins
from ._source import argument_node, call_node, waits_at_once

_RESULT = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "recv": "tensor", "scatter": "tensor",
    "all_gather_into_tensor": "output_tensor", "reduce_scatter_tensor": "output", "reduce_scatter": "output",
    "all_to_all_single": "output",
}  # fmt: skip
_NEW = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.IfExp)  # expressions that may make a new tensor
_LOOKS = 3  # at one line of a cell
_PATIENCE_S = 0.2  # gloo's thread lets go of a tensor a moment after its call has returned


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
        if others > 2:
            return
        keyword = _RESULT.get(name)
        tensor = given(args, kwargs, 0, keyword or "")
        if keyword is None or not isinstance(tensor, torch.Tensor):
            return
        # what holds it beside the call: names, torch while it works on it, and the check of handles
        names = others - (tensor._use_count() > 1) - (result is not None)
        frame = learners_frame() if names < 2 else None
        if frame is None or (result is not None and not waits_at_once(frame)):
            return
        node = call_node(frame)
        made = argument_node(node, 0, keyword) if node is not None else None
        if isinstance(made, ast.Name) and names == 1 and result is None and never_read_again(frame, made.id):
            known, made = made.id, made_by(frame, made.id)
        elif names:
            return
        else:
            known = ""
        if isinstance(made, _NEW) and not _only_gives(name, args, kwargs):
            self._look(name, tensor, frame, made, known, in_work=result is not None)

    def _look(self, name: str, tensor: torch.Tensor, frame: FrameType, made: ast.expr, known: str, *, in_work: bool) -> None:
        place = (frame.f_code, frame.f_lasti)
        if self._looks[place] >= _LOOKS:  # a loop: its first turns have told
            return
        self._looks[place] += 1
        found = {text: each for text, each in origins(made, frame).items() if text != known or each is not tensor}
        of_itself = bool(known) and known in origins(made, frame)  # v = v.clone()
        if (not found and not of_itself) or any(_overlap(tensor, each) for each in found.values()):
            return
        if _nobody_else(tensor, in_work=in_work):
            origin = next(iter(found), f"what {known} was before")
            self.notes.say(self.kind, name, site_of(frame), given=ast.unparse(made), origin=origin, name=known)

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


def _nobody_else(tensor: torch.Tensor, *, in_work: bool) -> bool:
    """Whether neither torch nor another tensor refers to this one or its memory; `in_work`: but for a handle."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        storage = tensor.untyped_storage()
        if (in_work or tensor._use_count() == 1) and storage_use_count(storage._cdata) <= _STORAGE_ALONE:
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
