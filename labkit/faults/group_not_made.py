"""One rank does not make a group that it is not in."""

from __future__ import annotations

from typing import Any

from ._forms import arguments
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class GroupNotMade(OneShot):
    """Goes past a new_group whose members are others, as code does in which only the members call it."""

    in_makings = True

    def applies(self, call: PendingCall) -> bool:
        members = arguments(call).get("ranks")
        return call.op == "new_group" and members is not None and self.context.rank not in members

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return -100  # what torch gives a rank that is no member


declare(
    Fault(
        name="group-not-made",
        title="One rank does not make a group of others",
        teaches=(
            "new_group is called by every rank, also by those that are not members of the new group. "
            "Here one rank goes past it, as in code that makes a group under `if rank in members`. "
            "Nothing happens at that line, and the group works. "
            "But each rank counts the groups that it makes, and finds its partners by that number: the next group that all ranks "
            "make never forms, since this rank looks for it under another number."
        ),
        cure="Make every group on every rank, in the same order, and ask only afterwards who is a member.",
        demo=(
            "first, last = dist.new_group([0]), dist.new_group([world_size - 1])\n"
            "team = dist.new_group(list(range(world_size)))\n"
            "x = torch.full((4,), float(rank + 1))\n"
            "dist.all_reduce(x, group=team)\n"
            "x.tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK020",)),
            "safe": Expectation("error", ("LK020",)),
        },
        make=GroupNotMade,
    )
)
