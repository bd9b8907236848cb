"""The faults in a fake rank. Most are the real interceptors; those that act on a process, or need torch, are acted out.

A fault that is in neither list is refused, because a real one might end this very process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ...errors import UsageError
from ...faults import FAULTS, FaultContext, Interceptor, Issue, OneShot, PendingCall
from ...faults._forms import DATA, arguments, changed
from .tensors import Tensor, as_tensor
from .turns import Gone

if TYPE_CHECKING:
    from .rank import FakeRank

AS_THEY_ARE = frozenset(
    "swapped-order swapped-twins skipped-collective extra-collective rank-raises leaves-early root-mismatch".split()
)


class _Acted(OneShot):
    """Does in a fake rank what the fault of that name does to a real one."""

    def __init__(self, rank: FakeRank, *, at: int = 1, **params: Any) -> None:
        super().__init__(rank, at=at)
        self.rank, self.params = rank, params


class _Killed(_Acted):
    def act(self, call: PendingCall, issue: Issue) -> Any:
        self.rank.die(-9)
        raise Gone


class _Stopped(_Acted):
    def act(self, call: PendingCall, issue: Issue) -> Any:
        pid = self.rank.pid
        pid.state = "stopped"
        self.rank.wait_until(lambda: pid.state == "running")
        return issue(call)


class _Sleeps(_Acted):
    def act(self, call: PendingCall, issue: Issue) -> Any:
        self.rank.sleep(self.params.get("seconds", self.params.get("delay_s", 0.0)))
        return issue(call)


class _HoldsGil(_Sleeps):
    def act(self, call: PendingCall, issue: Issue) -> Any:
        self.rank.mute = True
        try:
            return super().act(call, issue)
        finally:
            self.rank.mute = False


class _ReduceOp(_Acted):
    def applies(self, call: PendingCall) -> bool:
        given = arguments(call)
        reduces = call.op in ("all_reduce", "reduce", "reduce_scatter_tensor") or (
            call.op in ("recv", "sendrecv") and "op" in given
        )
        return reduces and given.get("op") != self.params["to"]

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return issue(changed(call, op=self.params["to"]))


class _Resized(_Acted):
    """Other tensors than the caller's; the result is not brought back, since nobody with real sizes survives to see it."""

    def other(self, tensor: Tensor) -> Tensor | None:
        raise NotImplementedError

    def _changes(self, call: PendingCall) -> dict[str, Any]:
        given = arguments(call)
        return {k: self.other(v) for k, v in given.items() if k in DATA and isinstance(v, Tensor)}

    def applies(self, call: PendingCall) -> bool:
        changes = self._changes(call)
        return bool(changes) and all(tensor is not None for tensor in changes.values())

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return issue(changed(call, **self._changes(call)))


class _Shape(_Resized):
    def other(self, tensor: Tensor) -> Tensor | None:
        if tensor.numel() < 2:
            return None
        flat = tensor.reshape(-1)
        return as_tensor(numpy.array(flat[: flat.size // 2]) if self.params["size"] == "smaller" else numpy.tile(flat, 2))


class _Dtype(_Resized):
    def other(self, tensor: Tensor) -> Tensor | None:
        if tensor.dtype.kind not in "fi":
            return None
        bits = tensor.itemsize * 8
        wanted = f"{ {'f': 'float', 'i': 'int'}[tensor.dtype.kind] }{bits // 2 if self.params['width'] == 'half' else bits * 2}"
        return tensor.to(wanted) if wanted in ("float16", "float32", "float64", "int32", "int64") else None


ACTED: dict[str, Callable[..., Interceptor]] = {
    "killed": _Killed, "stopped": _Stopped, "slow": _Sleeps, "busy-python": _Sleeps, "holds-gil": _HoldsGil,
    "reduce-op-mismatch": _ReduceOp, "shape-mismatch": _Shape, "dtype-mismatch": _Dtype,
}  # fmt: skip


def arm(name: str, rank: FakeRank, params: dict[str, Any]) -> Interceptor:
    """The interceptor of a fault, made for a fake rank."""
    fault = FAULTS[name]
    if name in AS_THEY_ARE:
        context: FaultContext = rank
        return fault.arm(context, **params)
    if name in ACTED:
        acted = ACTED[name](rank, **fault.check(params))
        acted.in_schedules = fault.in_schedule is not None
        return acted
    raise UsageError(f"the fake world can't act out {name}", hint="add it to labkit/driver/fake/faults.py, or use a real world")
