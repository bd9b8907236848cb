"""One rank ends its cell before the others do."""

from __future__ import annotations

from typing import Any

from .base import Expectation, Fault, Issue, LeaveCell, OneShot, PendingCall, declare


class LeavesEarly(OneShot):
    """Ends the cell in place of the call, as a `break` out of its last loop would."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        raise LeaveCell


declare(
    Fault(
        name="leaves-early",
        title="One rank runs out of data and leaves early",
        teaches=(
            "Here one rank ends its loop a step before the others, as it does when the data set does not divide evenly and its "
            "share has one batch less. "
            "On that rank nothing is wrong: its cell ends and it is idle. "
            "The others make one more all_reduce, and they wait in it for a rank that has finished. "
            "It is the classic deadlock in the last step of an epoch, and it depends on the number of samples and of ranks."
        ),
        cure=(
            "Give every rank the same number of steps: drop_last=True or padding in the sampler, or the DDP context "
            "`with model.join():`, or an all_reduce that asks whether everybody still has data."
        ),
        demo=(
            "total = torch.zeros(1)\n"
            "for step in range(3):\n"
            "    part = torch.full((1,), float((rank + 1) * 10**step))\n"
            "    dist.all_reduce(part)\n"
            "    total += part\n"
            "total.item()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK007",)),
            "safe": Expectation("error", ("LK007", "LK014")),
        },
        make=LeavesEarly,
        in_schedule=Expectation("hang", ("LK007",)),
    )
)
