"""LK019 models-differ."""

from __future__ import annotations

from ...calls import by_majority, is_tie
from ...errors import count, join_ranks
from ...phrases import few
from ...vocabulary import Ending
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule

MOST = 4  # names in a sentence
ALIKE = "Build the model alike on every rank, and freeze the same parameters, before DDP wraps it"
CONSTRUCTION = "DDP's construction"


@rule
class ModelsDiffer(Rule):
    """DDP refuses a model, since its trainable parameters are not the same on every rank.

    What: The ranks wrap a model in DDP, and it has other parameters, or other ones that can be trained, on some rank.
    Why: A layer is frozen or added on one rank only, the model is built from something that differs, such as the rank's own data;
    or several models are wrapped, in another order on some rank.
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
            return self._in_another_order(world, models)
        sides = by_majority(kinds.values())
        tie = is_tie(sides)
        first = sides[0]
        text = "; ".join(_difference(other, models[other[0]], first, models[first[0]]) for other in sides[1:])
        site = world.views[first[0]].error
        sites = {words.at(world.views[rank].error.site) for rank in models}  # type: ignore[union-attr]
        order = "Let every rank build and wrap its models in one order" if len(sites) > 1 else ALIKE
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
            next_step=f"{order}. Then run the cell again.",
            facts=tuple(f"rank {rank} gave {count(len(names), 'trainable parameter')}" for rank, names in models.items()),
            ending=Ending.ERROR,
        )

    def _in_another_order(self, world: Alignment, models: dict[int, tuple[str, ...]]) -> Verdict | None:
        """Some ranks were refused alone: DDP compares with rank 0, who goes on with the model that it gave."""
        building = {rank: wait.call for rank, wait in world.waits.items() if wait.call.part == CONSTRUCTION}
        if not models or 0 not in building or not set(world.waits[0].absent) <= {*models, *building}:
            return None
        refused, mine, theirs = tuple(models), world.views[next(iter(models))].error, building[0].site
        site = mine.site if mine is not None else None
        given = f"{join_ranks(refused)} gave DDP a model with {few(list(models[refused[0]]), MOST)}{words.at(site)}"
        if site != theirs:
            text = f"{given} while rank 0 gave it another model{words.at(theirs)}: the models are wrapped in different orders"
            fix = "Let every rank build and wrap its models in one order"
        else:
            text = f"{given}, and the parameters of the model that rank 0 gave at that time have other shapes"
            fix = "Build the model alike on every rank; of several models, let every rank build and wrap them in one order"
        return self.say(
            world,
            f"{text}; {words.wait_text(world, building)}",
            refused,
            sides=(words.side(world.evidence, refused, "was refused by DDP", site), *words.wait_sides(world, building)),
            fix=fix,
            facts=tuple(f"rank {rank}: {world.views[rank].error}" for rank in refused),
        )


def _difference(ranks: tuple[int, ...], names: tuple[str, ...], others: tuple[int, ...], theirs: tuple[str, ...]) -> str:
    missing = [name for name in theirs if name not in names]
    more = [name for name in names if name not in theirs]
    said = [f"{join_ranks(others)} can train {few(missing, MOST)}, {join_ranks(ranks)} can't"] if missing else []
    said += [f"{join_ranks(ranks)} can train {few(more, MOST)}, {join_ranks(others)} can't"] if more else []
    return "; ".join(said) or f"{join_ranks(ranks)}: the same parameters in another order"
