"""One rank makes a collective once too often."""

from __future__ import annotations

from typing import Any

from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class ExtraCollective(OneShot):
    """Issues the call twice; the caller gets the second result."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        self._first = issue(call)  # kept: an asynchronous call needs its Work alive until it is done
        return issue(call)


declare(
    Fault(
        name="extra-collective",
        title="One rank makes a collective once too often",
        teaches=(
            "Collectives are matched by counting, so one call more on one rank moves everything after it by one. "
            "Here one rank makes the same call twice, as code does that averages a metric under `if rank == 0`, or retries a "
            "step on one rank only. "
            "Its extra call meets the others' next call, which has other data: the sums are wrong and no error is raised. "
            "At its last call the rank is alone, because the others have finished, and it waits for good."
        ),
        cure=(
            "Take collectives out of `if rank == 0`: let all ranks make the call and let rank 0 alone print the result; retry a "
            "step on all ranks or on none."
        ),
        demo=(
            "grad = torch.full((4,), float(rank + 1))\n"
            "loss = torch.full((4,), 100.0 * (rank + 1))\n"
            "dist.all_reduce(grad)\n"
            "dist.all_reduce(loss)\n"
            "grad[0].item(), loss[0].item()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK009", "LK007")),
            "safe": Expectation("error", ("LK014", "LK009", "LK008")),
        },
        make=ExtraCollective,
        in_schedule=Expectation("hang", ("LK009",)),
    )
)
