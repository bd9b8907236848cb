"""Where one algorithm overtakes another: both curves with the place that was predicted and the one that was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..schedule import predict
from ..schedule.sweeps import Crossing
from . import _html as h
from . import costs
from ._base import add
from ._recorded import block


def text(crossing: Crossing) -> str:
    """The record's own text."""
    return str(crossing)


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


def html(crossing: Crossing) -> str:
    head, _, rest = str(dataclasses.replace(crossing, source=None)).partition(": ")
    drawn = curves(crossing)
    body = h.para(f"{rest}.") + (costs.html(drawn) if drawn is not None else "")
    return block(body, crossing.source, head=head)


def rich(crossing: Crossing) -> dict[str, Any]:
    """The figure for a frontend that has plotly."""
    drawn = curves(crossing)
    if drawn is None:
        return {}
    said = [str(crossing.source) if crossing.source is not None else "", drawn.note]
    return costs.rich(dataclasses.replace(drawn, note="; ".join(filter(None, said))))


add(Crossing, text, html, rich)
