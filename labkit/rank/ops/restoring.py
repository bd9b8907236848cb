"""A rank that takes another one's place is given what that one knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..context import RankContext
from ..definitions import replay
from ..dispatch import OPS
from ..saving import Saved, load


@OPS.register("restore")
def restore(context: RankContext, *, path: str, cell: int, cells: list[Any]) -> dict[str, Any]:
    """Read what a twin has written at `path` (as it was after cell `cell`), and make again what is still missing of `cells`."""
    context.knows_cell = cell
    saved = load(Path(path), context.namespace) if path else Saved()
    made, failed = replay([(number, source, ran_well) for number, source, ran_well in cells], context.namespace, cell)
    names = [name for name in saved.names if name not in made]
    lost = {name: why for name, why in {**failed, **saved.lost}.items() if name not in made}
    return {"names": names, "made": made, "lost": lost, "remarks": saved.remarks}
