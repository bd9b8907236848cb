"""One rank is late."""

from __future__ import annotations

import time
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare


class Slow(OneShot):
    """Sleeps, then makes the call."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        time.sleep(self.params["delay_s"])
        return issue(call)


declare(
    Fault(
        name="slow",
        title="One rank comes late to a collective",
        teaches=(
            "A collective is done when the last rank has come, so the slowest rank sets the pace of all. "
            "Here one rank is a straggler: it comes late, as with a slow disk, a longer batch or a GPU that is throttled. "
            "The result is right, and every rank loses the same time, so the lost time alone does not say who was late. "
            "What tells is the moment at which each rank entered the collective: the last one in is the late one."
        ),
        cure=(
            "Compare when each rank entered the collective, not how long it stayed; then give the late rank less work or a "
            "faster way to its data."
        ),
        demo=(
            "import time\n"
            "x = torch.full((4,), float(rank + 1))\n"
            "start = time.perf_counter()\n"
            "dist.all_reduce(x)\n"
            "print(f'rank {rank}: {time.perf_counter() - start:.2f} s in all_reduce')\n"
            "x.tolist()\n"
        ),
        expect={
            "raw": Expectation("slow", ("LK011",)),
            "safe": Expectation("slow", ("LK011",)),
        },
        make=Slow,
        params={"delay_s": Param(1.5, "how late the rank comes, in seconds", low=0.0, high=3600)},
        in_schedule=Expectation("slow", ("LK011",)),
    )
)
