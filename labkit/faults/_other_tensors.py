"""Giving a call other tensors than its caller's: what the size and dtype mismatches share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._forms import DATA, arguments, changed
from .base import Issue, OneShot, PendingCall

# in these calls the argument `tensor` is (also) where the result arrives
_ARRIVES_IN_TENSOR = frozenset({"all_reduce", "reduce", "broadcast", "scatter", "recv", "irecv"})
_RESULTS = frozenset({"tensor_list", "output_tensor", "gather_list", "output", "output_tensor_list"})


class ReturningWork:
    """The Work of a call on replaced tensors: after the wait, what arrived is where the caller looks for it."""

    def __init__(self, work: Any, bring_back: Callable[[], None]) -> None:
        self._work, self._bring_back = work, bring_back

    def wait(self, *timeout: Any) -> Any:
        answer = self._work.wait(*timeout)
        self._bring_back()
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class OtherTensors(OneShot):
    """Issues the call on other tensors, and copies what arrived there into the caller's, as far as it fits."""

    ops: frozenset[str] = frozenset()

    def other(self, tensor: Any) -> Any:
        """The tensor to use instead, holding the same values, or None if there is no sensible one."""
        raise NotImplementedError

    def applies(self, call: PendingCall) -> bool:
        if call.op not in self.ops:
            return False
        tensors = [tensor for value in _data(call).values() for tensor in _as_list(value)]
        return bool(tensors) and all(self.other(tensor) is not None for tensor in tensors)

    def act(self, call: PendingCall, issue: Issue) -> Any:
        pairs: list[tuple[Any, Any]] = []
        changes: dict[str, Any] = {}
        for name, value in _data(call).items():
            new = [self.other(tensor) for tensor in _as_list(value)]
            changes[name] = new if isinstance(value, (list, tuple)) else new[0]
            if name in _RESULTS or (name == "tensor" and call.op in _ARRIVES_IN_TENSOR):
                pairs += zip(_as_list(value), new, strict=True)
        result = issue(changed(call, **changes))
        if hasattr(result, "wait"):
            return ReturningWork(result, lambda: _copy(pairs))
        _copy(pairs)
        return result


def _data(call: PendingCall) -> dict[str, Any]:
    return {name: value for name, value in arguments(call).items() if name in DATA and value is not None}


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _copy(pairs: list[tuple[Any, Any]]) -> None:
    import torch

    with torch.no_grad():
        for mine, used in pairs:
            flat = mine.detach().flatten().clone()
            count = min(flat.numel(), used.numel())
            flat[:count] = used.flatten()[:count].to(flat.dtype)
            mine.copy_(flat.view(mine.shape))
