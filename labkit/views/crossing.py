"""Where one algorithm overtakes another: both curves with the place that was predicted and the one that was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..document import Heading, Node, Paragraph, Picture, Tree, tree_of
from ..schedule import predict
from ..schedule.sweeps import Crossing
from . import costs
from ._base import add
from ._html import as_html
from ._text import count
from .measured import recorded


def curves(crossing: Crossing) -> costs.CostCurves | None:
    """The picture's points and lines, with the record's own crossings; None if nothing was measured."""
    names = [crossing.one, crossing.other]
    runs: dict[str, dict[float, Sequence[float]]] = {
        name: {each.num_bytes: timing.times_s for each in crossing.comparisons for timing in each.timings if timing.name == name}
        for name in names
    }
    if not all(runs.values()):
        return None
    drawn = costs.cost_curves(crossing.world_size, runs, crossing.link, names)
    return dataclasses.replace(drawn, crossings=tuple(_crossings(crossing, runs)), note=_nowhere(crossing))


def _nowhere(crossing: Crossing) -> str:
    """Which of the two crossings there isn't."""
    found = (("by the model", crossing.predicted_bytes), ("as measured", crossing.measured_bytes))
    missing = " and ".join(how for how, size in found if size is None)
    return f"{missing} neither overtakes the other" if missing else ""


def _crossings(crossing: Crossing, runs: costs.Runs) -> list[costs.CostCrossing]:
    names = crossing.one, crossing.other
    found = []
    if crossing.predicted_bytes is not None:
        size = crossing.predicted_bytes
        prices = {name: predict(name, crossing.world_size, 2 * size, crossing.link).seconds for name in names}
        other = min(names, key=lambda name: prices[name])
        seconds = predict(names[0], crossing.world_size, size, crossing.link).seconds
        found.append(costs.CostCrossing(names[other == names[0]], other, size, seconds, "model"))
    if crossing.measured_bytes is not None:
        ordered = (found[0].one, found[0].other) if found else names  # it was looked for in the predicted direction
        found.append(costs.crossing_at(ordered, costs.medians(runs), crossing.measured_bytes, ordered=bool(found)))
    return found


def tree(crossing: Crossing) -> Tree:
    """The sentence, and both curves; a terminal has the sentence alone."""
    head = f"{crossing.one} and {crossing.other} on {count(crossing.world_size, 'rank')} cross"
    drawn = curves(crossing)
    table = as_html(tree_of(drawn)) if drawn is not None else ""
    parts: list[Node] = [Picture(as_html([Heading(head)])), Paragraph(crossing.sentence, label=head), Picture(table)]
    return [recorded(parts, crossing.source)]


def rich(crossing: Crossing) -> dict[str, Any]:
    """The figure for a frontend that has plotly."""
    drawn = curves(crossing)
    if drawn is None:
        return {}
    said = [str(crossing.source) if crossing.source is not None else "", drawn.note]
    return costs.rich(dataclasses.replace(drawn, note="; ".join(filter(None, said))))


add(Crossing, tree, rich)
