"""One rank leaves a collective out."""

from __future__ import annotations

from typing import Any

from ._forms import DoneWork, arguments, is_async
from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class SkippedCollective(OneShot):
    """Returns from the call without issuing it, with what its caller expects to get."""

    def applies(self, call: PendingCall) -> bool:
        return call.op != "batch_isend_irecv"  # what it returns can't be made up

    def act(self, call: PendingCall, issue: Issue) -> Any:
        if call.op == "recv":
            given = arguments(call)
            source = given.get("src", given.get("group_src"))
            return 0 if source is None else source
        return DoneWork() if is_async(call) else None


declare(
    Fault(
        name="skipped-collective",
        title="One rank leaves a collective out",
        teaches=(
            "Collectives are matched by counting: call number one with call number one, on every rank. "
            "Here one rank leaves one call out, as an `if` around a collective does when its condition is not the same "
            "everywhere (a loss that is NaN on one rank only, a log that only rank 0 writes). "
            "From then on it is one call ahead of the others, so its second call is added to their first one, and the numbers "
            "are wrong, with no error. "
            "At the end the others wait in a call that this rank never makes: the hang shows some lines after the line that "
            "caused it."
        ),
        cure=(
            "Call the collective on every rank, and decide afterwards what to do with the result; if the decision itself "
            "depends on data, agree on it first with one all_reduce of a flag."
        ),
        demo=(
            "a, b, c = (torch.full((4,), float(10**step * (rank + 1))) for step in range(3))\n"
            "dist.all_reduce(a)\n"
            "dist.all_reduce(b)\n"
            "dist.all_reduce(c)\n"
            "[t[0].item() for t in (a, b, c)]\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK009", "LK007")),
            "safe": Expectation("error", ("LK014", "LK009", "LK008")),
        },
        make=SkippedCollective,
        in_schedule=Expectation("hang", ("LK009", "LK007")),  # the last move of all left out is to leave
    )
)
