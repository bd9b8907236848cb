"""LK014 contract-refused."""

from __future__ import annotations

from ...errors import join_ranks
from ...vocabulary import CallState, Ending
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class ContractRefused(Rule):
    """Safe mode refused a collective, and no other rule says why.

    What: The ranks' calls were compared before they were issued, and they did not match.
    Why: Some part of the call differs that the beacon does not show.
    Evidence: Calls are marked as refused, and operation, size, root and line agree in what is known of them.
    Remedy: Read the ContractError: it names what differs. Nothing was issued, so tensors and group are as before.
    """

    code = "LK014"
    name = "contract-refused"
    title = "Safe mode refused a collective"

    def claim(self, world: Alignment) -> Verdict | None:
        refused = tuple(rank for rank, wait in world.waits.items() if wait.call.state == CallState.REFUSED)
        waits = words.main_wait(world, refused)
        if waits is None or not world.agree or world.absence is not None:
            return None
        ranks, call = waits
        errors = {str(error) for rank in ranks if (error := world.views[rank].error) is not None}
        return self.say(
            world,
            f"safe mode refused {words.placed(call)} on {join_ranks(ranks)}: the ranks do not agree on it",
            sides=words.wait_sides(world, refused),
            fix="Read the ContractError: it names what differs",
            facts=tuple(sorted(errors)),
            ending=Ending.ERROR,
        )
