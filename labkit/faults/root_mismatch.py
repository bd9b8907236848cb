"""One rank believes that another rank is the root."""

from __future__ import annotations

from typing import Any

from ._forms import arguments, changed, group_members
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare

# the other calls with a root also need the root's list of tensors, so torch refuses a wrong one itself
_ROOTS = {"broadcast": ("src", "group_src"), "reduce": ("dst", "group_dst")}


class RootMismatch(OneShot):
    """Names another root: this rank itself, or the next one if this rank is the root."""

    def applies(self, call: PendingCall) -> bool:
        return call.op in _ROOTS and self.context.world_size > 1 and len(group_members(call, self.context.world_size)) > 1

    def act(self, call: PendingCall, issue: Issue) -> Any:
        given = arguments(call)
        by_rank, by_place = _ROOTS[call.op]
        members = group_members(call, self.context.world_size)
        place = given.get(by_place)
        if place is None:
            root = given.get(by_rank)
            place = members.index(0 if root is None else root)
        mine = members.index(self.context.rank)
        other = mine if mine != place else (mine + 1) % len(members)
        if given.get(by_place) is not None:
            return issue(changed(call, **{by_place: other}))
        return issue(changed(call, **{by_rank: members[other]}))


declare(
    Fault(
        name="root-mismatch",
        title="One rank broadcasts from another root",
        teaches=(
            "In a broadcast one rank, the root, sends and the others receive, and every rank must name the same root. "
            "Here one rank names another one, as with `src=rank` where `src=0` was meant, or a rank within a group taken for a "
            "rank of the world. "
            "Each rank works out from the root whom to receive from and whom to send to, so the plans do not fit together: some "
            "ranks wait for data that nobody sends them. "
            "Other ranks may even finish, with the numbers of the wrong root."
        ),
        cure=(
            "Give the root as a constant that is the same on all ranks, and remember that `src` counts in the world and "
            "`group_src` in the group."
        ),
        demo=("weights = torch.full((4,), 10.0 + rank)\ndist.broadcast(weights, src=0)\nweights.tolist()\n"),
        expect={
            "raw": Expectation("hang", ("LK006",)),
            "safe": Expectation("error", ("LK014", "LK006")),
        },
        make=RootMismatch,
    )
)
