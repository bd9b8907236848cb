"""Two all_reduces that look alike change places on one rank."""

from __future__ import annotations

from typing import Any

from ._forms import arguments
from ._swap import Swap
from .base import Expectation, Fault, PendingCall, declare


class SwappedTwins(Swap):
    """Holds an all_reduce back until one on another tensor of the same shape and dtype has gone first."""

    def may_hold(self, call: PendingCall) -> bool:
        return call.op == "all_reduce"

    def may_overtake(self, held: PendingCall, call: PendingCall) -> bool:
        if call.op != "all_reduce":
            return False
        first, second = arguments(held), arguments(call)
        return (
            first["tensor"] is not second["tensor"]
            and _looks(first["tensor"]) == _looks(second["tensor"])
            and first.get("op") == second.get("op")
            and first.get("group") is second.get("group")
        )


def _looks(tensor: Any) -> tuple[Any, Any]:
    return tensor.shape, tensor.dtype


declare(
    Fault(
        name="swapped-twins",
        title="Two all_reduces of the same shape change places on one rank",
        teaches=(
            "An all_reduce carries numbers and no label, so two calls on tensors of the same shape can't be told apart by the "
            "library. "
            "Here one rank reduces its second tensor first, as happens when gradients are reduced in the order in which a dict, "
            "a hook or a thread happens to deliver them. "
            "The other ranks add that rank's second tensor to their first one: every call succeeds, the loss goes on falling, "
            "and the numbers are wrong. "
            "No timeout and no debug level of torch sees it; only the line each call comes from, or a check of the values, does."
        ),
        cure=(
            "Reduce in an order that every rank derives from the same list, for example sorted parameter names, or put the "
            "tensors into one flat buffer and reduce that once."
        ),
        demo=(
            "weight_grad = torch.full((4,), float(rank + 1))\n"
            "bias_grad = torch.full((4,), 100.0 * (rank + 1))\n"
            "dist.all_reduce(weight_grad)\n"
            "dist.all_reduce(bias_grad)\n"
            "weight_grad.tolist(), bias_grad.tolist()\n"
        ),
        expect={
            "raw": Expectation("silent", ("LK008",)),
            "safe": Expectation("error", ("LK014", "LK008")),
        },
        make=SwappedTwins,
    )
)
