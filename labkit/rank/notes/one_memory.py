"""One tensor at two places of the list that a collective writes to: `dist.all_gather([x] * world_size, mine)`."""

from __future__ import annotations

from typing import Any

import torch

from . import CHECKS, Check, given, learners_frame, site_of
from ._source import argument, call_node

_WRITTEN = {"all_gather": (0, "tensor_list"), "gather": (1, "gather_list"), "all_to_all": (0, "output_tensor_list")}


@CHECKS.register("one-memory")
class OneMemory(Check):
    """Looks at where the tensors of an output list begin: two that begin at one place are written over one another."""

    kind = "one-memory"

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Only a few operations have such a list."""
        where = _WRITTEN.get(name)
        tensors = given(args, kwargs, *where) if where is not None else None
        if where is None or not isinstance(tensors, (list, tuple)) or len(tensors) < 2:
            return
        full = [each for each in tensors if isinstance(each, torch.Tensor) and each.numel()]
        places = {each.data_ptr() for each in full}
        if len(places) == len(full):
            return
        frame = learners_frame()
        if frame is not None:
            node = call_node(frame)
            text = argument(node, *where) if node is not None else ""
            self.notes.say(self.kind, name, site_of(frame), name=text, count=len(full), places=len(places))
