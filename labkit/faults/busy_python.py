"""One rank is busy in a loop of Python code."""

from __future__ import annotations

import time
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare


class BusyPython(OneShot):
    """Spins in Python, then makes the call; an interrupt ends it at once."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        until = time.monotonic() + self.params["seconds"]
        while time.monotonic() < until:
            pass
        return issue(call)


declare(
    Fault(
        name="busy-python",
        title="One rank is busy in a loop of Python code",
        teaches=(
            "Here one rank is still busy with something of its own when the others are already in the collective, as with a "
            "retry loop that never succeeds, or a tokeniser that got a huge file on this rank only. "
            "The others wait, and they look stuck in the network, but they are the healthy ones. "
            "The busy rank uses a whole processor core and its stack shows the loop, not a collective. "
            "Its other threads still run, so it answers requests, and an interrupt ends the loop."
        ),
        cure=(
            "Look at the stack of the rank that is not in the collective and mend that loop: give it an end, or spread the work "
            "evenly before the collective."
        ),
        demo=(
            "counts = torch.tensor([float(rank + 1), 1.0])\n"
            "dist.all_reduce(counts)\n"
            "total, ranks_seen = counts.tolist()\n"
            "total / ranks_seen\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK010",)),
            "safe": Expectation("error", ("LK010", "LK014")),
        },
        make=BusyPython,
        params={"seconds": Param(3600.0, "how long the loop runs", low=0.01, high=86400)},
        in_schedule=Expectation("hang", ("LK010",)),
    )
)
