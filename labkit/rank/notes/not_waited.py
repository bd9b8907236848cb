"""Asynchronous work that nobody waits for, or whose tensor is changed or read before the wait.

A handle counts as waited for when the learner's code has called `wait`, has seen `is_completed()` be true, has asked for its
future, or has passed a barrier of its group. A handle that is still held at the end of a cell may be waited for in the next.
"""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ...wire import CallSite
from . import CHECKS, Check, given, group_of, is_ours, learners_frame, site_of
from ._reads import read_between, reads, tree_of
from ._source import argument_node, call_node

# Where the tensor is that must not change meanwhile. gloo itself writes to outputs that are not here in a way that torch counts.
_WATCHED = {
    "all_reduce": (0, "tensor"), "broadcast": (0, "tensor"), "reduce": (0, "tensor"), "isend": (0, "tensor"),
    "irecv": (0, "tensor"), "all_gather": (1, "tensor"), "all_gather_into_tensor": (1, "input_tensor"), "gather": (0, "tensor"),
    "all_to_all_single": (1, "input"), "reduce_scatter_tensor": (1, "input"),
}  # fmt: skip
_WRITTEN = {"all_reduce", "broadcast", "reduce", "irecv"}  # the watched tensor gets a result: it must not be read either
WAITS = ("wait", "synchronize", "get_future", "get_future_result", "result", "block_current_stream")
_MOST_HELD = 64  # tensors that are kept until somebody waits


@dataclass
class _Started:
    """An operation that is under way, as far as the learner's code knows."""

    handle: weakref.ref[Any]
    op: str
    site: CallSite
    group: Any
    tensor: torch.Tensor | None
    version: int
    name: str
    end_line: int
    cell: tuple[str, int]  # the file and the line of the cell itself that this call was made from

    @property
    def changed(self) -> bool:
        return self.tensor is not None and self.tensor._version != self.version

    @property
    def gets_result(self) -> bool:
        return self.op in _WRITTEN and self.tensor is not None


@CHECKS.register("not-waited")
class NotWaited(Check):
    """Follows the handles that the learner's calls return."""

    kind = "not-waited"

    def __init__(self, notes: Any) -> None:
        super().__init__(notes)
        self.started: dict[int, _Started] = {}
        self.lost: list[_Started] = []
        for name in WAITS[1:]:
            setattr(dist.Work, name, self._spy(getattr(dist.Work, name)))
        dist.Work.wait = self._spy_wait(dist.Work.wait)
        dist.Work.is_completed = self._spy_answer(dist.Work.is_completed)

    def _spy(self, original: Any) -> Any:
        @functools.wraps(original)
        def asked(work: Any, *args: Any, **kwargs: Any) -> Any:
            if self.started and not is_ours(sys._getframe(1)):
                self._waited(work)
            return original(work, *args, **kwargs)

        return asked

    def _spy_wait(self, original: Any) -> Any:
        context = self.notes.context

        @functools.wraps(original)
        def asked(work: Any, *args: Any, **kwargs: Any) -> Any:
            open_calls = context.tap.open_calls
            if (not self.started and not open_calls) or is_ours(sys._getframe(1)):  # labkit's own look is no wait
                return original(work, *args, **kwargs)
            if self.started:
                self._waited(work)
            context.tap.before_wait(work)
            result = original(work, *args, **kwargs)
            open_calls.waited(work)
            return result

        return asked

    def _spy_answer(self, original: Any) -> Any:
        @functools.wraps(original)
        def asked(work: Any) -> Any:
            done = original(work)
            if done and self.started and not is_ours(sys._getframe(1)):
                self._waited(work)
            return done

        return asked

    def _waited(self, work: Any) -> None:
        begun = self.started.pop(id(work), None)
        if begun is None:
            return
        if begun.changed:
            self._say(begun, "changed")
        elif begun.name and begun.gets_result and _used_before(begun, learners_frame()):
            self._say(begun, "used")

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Most calls return no handle."""
        if result is None:
            if name == "barrier" and self.started:
                self._passed_barrier(group_of(args, kwargs))
            return
        handles = result if isinstance(result, list) else [result]
        frame = learners_frame()
        if frame is not None:
            for at, handle in enumerate(handles):
                if isinstance(handle, dist.Work):
                    self._begin(name, args, kwargs, handle, frame, at)

    def _begin(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], handle: Any, frame: FrameType, number: int
    ) -> None:
        where = _WATCHED.get(name)
        tensor = given(args, kwargs, *where) if where is not None else None
        if name == "batch_isend_irecv":
            tensor = given(args, kwargs, 0, "p2p_op_list")[number].tensor
        if not isinstance(tensor, torch.Tensor) or tensor.is_inference() or len(self.started) >= _MOST_HELD:
            tensor = None
        node, found = call_node(frame), ""
        if node is not None and where is not None:
            made = argument_node(node, *where)
            found = made.id if isinstance(made, ast.Name) else ""
        key = id(handle)
        begun = _Started(
            weakref.ref(handle, lambda _: self._lose(key)), name, site_of(frame), group_of(args, kwargs), tensor,
            tensor._version if tensor is not None else 0, found, frame.f_lineno, _line_of_cell(frame),
        )  # fmt: skip
        self.started[key] = begun

    def _lose(self, key: int) -> None:
        begun = self.started.pop(key, None)
        if begun is not None:
            self.lost.append(begun)

    def _passed_barrier(self, group: Any) -> None:
        """A barrier of gloo's and of NCCL's waits for all that its group has begun."""
        for key in [key for key, begun in self.started.items() if begun.group is group]:
            begun = self.started.pop(key)
            if begun.changed:
                self._say(begun, "changed")
        self.lost = [begun for begun in self.lost if begun.group is not group]

    def close(self, ok: bool) -> None:
        """Handles that nobody holds are lost; of those that are held, what has become of their tensors."""
        if ok:
            open_calls = self.notes.context.tap.open_calls
            for key, begun in list(self.started.items()):
                handle = begun.handle()
                if handle is None or sys.getrefcount(handle) - (handle in open_calls) <= _HELD_BY_NOBODY:
                    self._lose(key)
                elif begun.changed or _used_after(begun, self.notes.context.namespace):
                    self._say(self.started.pop(key), "changed" if begun.changed else "used")
            for begun in self.lost:
                self._say(begun, "lost")
        self.lost.clear()

    def forget(self) -> None:
        """What was under way ended with its groups."""
        self.started.clear()
        self.lost.clear()

    def _say(self, begun: _Started, how: str) -> None:
        self.notes.say(self.kind, begun.op, begun.site, how=how, changed=begun.changed)


def _line_of_cell(frame: FrameType) -> tuple[str, int]:
    """The cell's own line that a call was made from, through whatever functions."""
    at: FrameType | None = frame
    while at is not None and at.f_code.co_name != "<module>":
        at = at.f_back
    return (at.f_code.co_filename, at.f_lineno) if at is not None else ("", 0)


def _used_after(begun: _Started, namespace: dict[str, Any]) -> bool:
    """Whether the cell computes further down with a variable that is still the tensor."""
    tree = tree_of(begun.cell[0]) if begun.gets_result else None
    names = [name for name, value in namespace.items() if value is begun.tensor]
    below = [each for each in tree.body if not isinstance(each, (ast.FunctionDef, ast.ClassDef))] if tree is not None else []
    return any(reads(below, name, after=begun.cell[1]) for name in names)


def _used_before(begun: _Started, waits: FrameType | None) -> bool:
    """Whether the function that has begun the work computes with its tensor, and waits after that."""
    if waits is None or waits.f_code.co_filename != begun.site.file or waits.f_code.co_name != begun.site.function:
        return False
    tree = tree_of(begun.site.file)
    return tree is not None and read_between(tree, begun.name, begun.end_line, waits.f_lineno)


def _count_alone() -> int:
    handle = object()
    return sys.getrefcount(handle)


_HELD_BY_NOBODY = _count_alone()
