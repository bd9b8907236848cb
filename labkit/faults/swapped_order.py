"""Two different collectives change places on one rank."""

from __future__ import annotations

from ._swap import Swap
from .base import Expectation, Fault, PendingCall, declare


class SwappedOrder(Swap):
    """Holds the call back and lets whatever comes next go first.

    Two calls that look alike give the silent ending of swapped-twins, two sizes of one call the abort of
    shape-mismatch; the hang needs two different operations, as in the demo.
    """

    def may_hold(self, call: PendingCall) -> bool:
        return True

    def may_overtake(self, held: PendingCall, call: PendingCall) -> bool:
        return True


declare(
    Fault(
        name="swapped-order",
        title="Two collectives change places on one rank",
        teaches=(
            "Collectives are matched by their order and not by name: the first call of one rank meets the first call of every "
            "other rank, the second meets the second, and so on. "
            "Here one rank makes its two calls in the other order, as code does that walks over a set, a dict or a folder "
            "whose order is not the same everywhere. "
            "So three ranks wait in an all_reduce that the fourth has not begun, and the fourth waits in a broadcast that "
            "nobody else has begun. "
            "No rank is wrong on its own, so no error is raised: all of them wait for good, in a deadlock."
        ),
        cure=(
            "Make every rank issue the same collectives in the same order: sort whatever you iterate over, and let no branch "
            "that depends on the rank decide which collective comes first."
        ),
        demo=(
            "grad = torch.full((4,), float(rank + 1))\n"
            "scale = torch.full((4,), 10.0 * (rank + 1))\n"
            "dist.all_reduce(grad)\n"
            "dist.broadcast(scale, src=0)\n"
            "(grad * scale).tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK004",)),
            "safe": Expectation("error", ("LK014", "LK004")),
        },
        make=SwappedOrder,
    )
)
