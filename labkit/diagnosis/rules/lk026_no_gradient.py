"""LK026 no-gradient."""

from __future__ import annotations

import re

from ...errors import join_ranks
from ...vocabulary import Ending, Standing
from ...wire import CodeError, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule

UNFINISHED = "Expected to have finished reduction in the prior iteration"
_NAMES = re.compile(r"no gradient came to (.+?)(?: \(find_unused|$)")


@rule
class NoGradient(Rule):
    """Parameters of a DDP model got no gradient in the step before, so DDP could not finish it.

    What: The next forward through DDP raises. DDP waits for a gradient of every parameter, or it reduces nothing.
    Why: The loss does not use all that forward gives, a branch of forward left a layer out, or a layer is not called at all.
    Evidence: DDP's own exception on at least one rank, with the parameters that it has counted.
    Remedy: Use every output in the loss, take unused layers out of the model, or wrap it with find_unused_parameters=True.
    """

    code = "LK026"
    name = "no-gradient"
    title = "Parameters of a DDP model got no gradient"
    priority = 4

    def claim(self, world: Alignment) -> Verdict | None:
        found = {rank: error for rank in world.ranks_in(Standing.RAISED)
                 if (error := world.views[rank].error) is not None and UNFINISHED in error.message}  # fmt: skip
        raised = world.absent(Standing.RAISED)
        if not found or (world.waits and not set(raised) & set(found)):
            return None
        sides: dict[tuple[str, str], list[int]] = {}
        for rank, error in found.items():
            sides.setdefault((_names(error), words.at(error.site)), []).append(rank)
        text = "; ".join(
            f"on {join_ranks(ranks)} the backward of the step before gave no gradient to {names}, so DDP could not finish "
            f"that step and raised at the next forward{where}"
            for (names, where), ranks in sides.items()
        )
        waits = words.wait_text(world, world.waits)
        fix = "Let the loss use every output of forward on every rank, or take the layers that are not used out of the model"
        if not any("find_unused_parameters=True is" in error.message for error in found.values()):
            fix += ", or wrap the model in DistributedDataParallel(..., find_unused_parameters=True)"
        return self.say(
            world,
            f"{text}{f'; {waits}' if waits else ''}",
            tuple(found),
            sides=(*(words.side(world.evidence, tuple(ranks), f"raised {found[ranks[0]].type}", found[ranks[0]].site)
                     for ranks in sides.values()), *words.wait_sides(world, world.waits)),
            next_step=f"{fix}. {words.after_fixing(world) if world.waits else 'Then build the model and run the cell again.'}",
            facts=tuple(f"rank {rank}: no gradient for {_names(error)}" for rank, error in found.items()),
            ending=Ending.HANG if any(wait.live for wait in world.waits.values()) else Ending.ERROR,
        )  # fmt: skip


def _names(error: CodeError) -> str:
    found = _NAMES.search(error.message)
    return found[1] if found else "some of the parameters"
