"""One rank's own code raises."""

from __future__ import annotations

from typing import Any

from .base import Expectation, Fault, Issue, OneShot, PendingCall, PlannedFault, declare


class RankRaises(OneShot):
    """Raises in place of the call; the process stays alive and answers as before."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        raise PlannedFault(f"planned fault: rank {self.context.rank} raised instead of call {call.number}, {call.op}")


declare(
    Fault(
        name="rank-raises",
        title="One rank's code raises an exception",
        teaches=(
            "Here one rank's own code raises just before a collective, as it does on a bad sample, a missing file or a full GPU "
            "that only this rank has. "
            "In a notebook the rank's process lives on after an exception, so its connections stay open and the other ranks get "
            "no sign that it is not coming. "
            "They wait in the collective until the timeout. "
            "The hang looks like a network problem, and the cause is an ordinary traceback on another rank."
        ),
        cure=(
            "Read the traceback of the rank that raised and mend that line; where an error must be survived, catch it and let "
            "all ranks agree, with one all_reduce of a flag, whether to go on."
        ),
        demo=(
            "batch = torch.arange(4.0) + 10 * rank\n"
            "total = batch.sum()\n"
            "dist.all_reduce(total)\n"
            "mean = (total / (4 * world_size)).item()\n"
            "mean\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK003",)),
            "safe": Expectation("error", ("LK003", "LK014")),
        },
        make=RankRaises,
        in_schedule=Expectation("hang", ("LK003",)),
    )
)
