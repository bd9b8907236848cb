"""LK019 models-differ."""

from __future__ import annotations

from ...calls import by_majority, is_tie
from ...errors import count, join_ranks
from ...vocabulary import Ending
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule

MOST = 4  # names in a sentence


@rule
class ModelsDiffer(Rule):
    """DDP refuses a model, since its trainable parameters are not the same on every rank.

    What: The ranks wrap a model in DDP, and it has other parameters, or other ones that can be trained, on some rank.
    Why: A layer is frozen or added on one rank only, the model is built from something that differs, such as the rank's own data.
    Evidence: DDP's own exception on at least one rank, and the names and shapes of the parameters that each rank gave it.
    Remedy: Build the model alike on every rank, and freeze the same parameters, before it is wrapped.
    """

    code = "LK019"
    name = "models-differ"
    title = "The ranks give DDP different models"
    priority = 4

    def claim(self, world: Alignment) -> Verdict | None:
        models = {rank: v.error.parameters for rank, v in world.views.items() if v.error is not None and v.error.parameters}
        kinds: dict[tuple[str, ...], list[int]] = {}
        for rank, names in models.items():
            kinds.setdefault(names, []).append(rank)
        if len(kinds) < 2:
            return None
        sides = by_majority(kinds.values())
        tie = is_tie(sides)
        first = sides[0]
        text = "; ".join(_difference(other, models[other[0]], first, models[first[0]]) for other in sides[1:])
        site = world.views[first[0]].error
        return self.say(
            world,
            f"the ranks give DDP different models{words.at(site.site) if site is not None else ''}: {text}",
            tuple(models) if tie else tuple(sorted(rank for side in sides[1:] for rank in side)),
            waiting=(),
            sides=tuple(
                words.side(world.evidence, side, f"{count(len(models[side[0]]), 'trainable parameter')}", error.site)
                for side in sides
                if (error := world.views[side[0]].error) is not None
            ),
            next_step="Build the model alike on every rank, and freeze the same parameters, before DDP wraps it. "
            "Then run the cell again.",
            facts=tuple(f"rank {rank} gave {count(len(names), 'trainable parameter')}" for rank, names in models.items()),
            ending=Ending.ERROR,
        )


def _difference(ranks: tuple[int, ...], names: tuple[str, ...], others: tuple[int, ...], theirs: tuple[str, ...]) -> str:
    missing = [name for name in theirs if name not in names]
    more = [name for name in names if name not in theirs]
    said = [f"{join_ranks(others)} can train {_listed(missing)}, {join_ranks(ranks)} can't"] if missing else []
    said += [f"{join_ranks(ranks)} can train {_listed(more)}, {join_ranks(others)} can't"] if more else []
    return "; ".join(said) or f"{join_ranks(ranks)}: the same parameters in another order"


def _listed(names: list[str]) -> str:
    rest = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {rest} more" if rest > 0 else "")
