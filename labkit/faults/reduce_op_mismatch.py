"""One rank reduces with another operation."""

from __future__ import annotations

from typing import Any

from ._forms import arguments, changed
from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare

_REDUCES = frozenset({"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"})
_MOVES = frozenset({"recv", "sendrecv"})  # of a schedule: those that add what comes in have an op


class ReduceOpMismatch(OneShot):
    """Replaces the reduce op; a call that has this op already is left alone."""

    def applies(self, call: PendingCall) -> bool:
        given = arguments(call)
        if call.op not in _REDUCES and not (call.op in _MOVES and "op" in given):
            return False
        return bool(_name(given.get("op")) != self.params["to"])

    def act(self, call: PendingCall, issue: Issue) -> Any:
        import torch.distributed as dist

        return issue(changed(call, op=getattr(dist.ReduceOp, self.params["to"])))


def _name(op: Any) -> str:
    """ "MAX" for a ReduceOp.MAX in either of torch's two spellings; SUM where none is given."""
    if op is None:
        return "SUM"
    text = str(op)
    return next((name for name in ("SUM", "MAX", "MIN", "PRODUCT", "AVG") if name in text), text)


declare(
    Fault(
        name="reduce-op-mismatch",
        title="One rank takes the maximum where the others sum",
        teaches=(
            "Each rank decides by itself how to combine the numbers: only the numbers are sent, not the operation. "
            "Here one rank reduces with MAX where the others use SUM, as with a default argument that was changed in one place. "
            "In a ring each rank combines some of the pieces, so the elements that this rank combined are wrong and the others "
            "are right. "
            "All ranks may even agree on the result, and nothing is raised: the same wrong numbers everywhere."
        ),
        cure=(
            "Write the reduce op once, in one function that every rank calls; check a reduction now and then against one that "
            "you computed from gathered values."
        ),
        demo=(
            "x = torch.arange(8.0) + 10 * rank\n"
            "expected = 8 * [10 * sum(range(world_size))]\n"
            "expected = [e + world_size * i for i, e in enumerate(expected)]\n"
            "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
            "print('got     ', x.tolist())\n"
            "print('expected', expected)\n"
        ),
        expect={
            "raw": Expectation("silent", ("LK006",)),
            "safe": Expectation("error", ("LK014", "LK006")),
        },
        make=ReduceOpMismatch,
        params={"to": Param("MAX", "the reduce op this rank uses", choices=("MAX", "MIN", "PRODUCT", "SUM"))},
        in_schedule=Expectation("silent", ("LK006",)),
    )
)
