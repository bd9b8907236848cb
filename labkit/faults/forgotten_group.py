"""One rank forgets to name the process group."""

from __future__ import annotations

from typing import Any

from ._forms import arguments, changed
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class ForgottenGroup(OneShot):
    """Makes a call of all ranks out of one that names a group."""

    def applies(self, call: PendingCall) -> bool:
        return call.op in ("all_reduce", "barrier", "all_gather_into_tensor") and arguments(call).get("group") is not None

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return issue(changed(call, group=None))


declare(
    Fault(
        name="forgotten-group",
        title="One rank forgets the process group",
        teaches=(
            "A collective without `group=` is one of all ranks, whatever groups there are. "
            "Here one rank leaves the group out, as a helper does that has a default for it. "
            "That rank waits for all ranks in a call of the world, and the others wait for it in a call of the group. "
            "The two calls are of one line and look alike, but each group counts its own calls, so they never meet."
        ),
        cure="Hand the group through to every call, and give helpers no default for it.",
        demo=(
            "team = dist.new_group(list(range(world_size)))\n"
            "x = torch.full((4,), float(rank + 1))\n"
            "dist.all_reduce(x, group=team)\n"
            "x.tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK024",)),
            "safe": Expectation("error", ("LK024",)),
        },
        make=ForgottenGroup,
    )
)
