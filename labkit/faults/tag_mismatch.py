"""One rank sends with another tag."""

from __future__ import annotations

from typing import Any

from ._forms import arguments, changed
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class TagMismatch(OneShot):
    """Adds one to the tag of a send or recv."""

    def applies(self, call: PendingCall) -> bool:
        return call.op in ("send", "recv", "isend", "irecv")

    def act(self, call: PendingCall, issue: Issue) -> Any:
        return issue(changed(call, tag=arguments(call).get("tag", 0) + 1))


declare(
    Fault(
        name="tag-mismatch",
        title="One rank sends with another tag",
        teaches=(
            "A message between two ranks is matched by its tag as well: a recv takes only a message with the tag that it names. "
            "Here one rank sends with another tag, as a pipeline does that numbers its microbatches otherwise on one stage. "
            "The message is on its way and the receiver waits, but not for this one, so neither of them goes on. "
            "Nothing is wrong with the sizes or with the peers, so only the tags tell it."
        ),
        cure="Take the tag from what both sides know, such as the number of the microbatch, and receive in the order of sending.",
        demo=(
            "left, right = (rank - 1) % world_size, (rank + 1) % world_size\n"
            "came = torch.zeros(4)\n"
            "work = dist.isend(torch.full((4,), float(rank)), right, tag=3)\n"
            "dist.recv(came, left, tag=3)\n"
            "work.wait()\n"
            "dist.all_reduce(came)\n"
            "came.tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK013",)),
            "safe": Expectation("error", ("LK013",)),
        },
        make=TagMismatch,
    )
)
