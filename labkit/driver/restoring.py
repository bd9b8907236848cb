"""Gives a rank that was replaced what the one before it knew: what its twin has written, and the definitions of its cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from ..recovered import Restored
from ..recovery import RestoreEnded
from ..wire import CellResult
from .transport import Pending
from .twins import Kept

if TYPE_CHECKING:
    from .cluster import Cluster

RESTORE_S = 10.0
Cells = Callable[[int], Sequence[tuple[int, str, bool]]]  # of a rank: (number, source, whether it ran well)


class History:
    """The cells that each rank has run; of those with one text the newest, so that a cell that runs often takes no more room."""

    def __init__(self) -> None:
        self._ran: dict[int, dict[int, tuple[str, bool]]] = {}

    def note(self, result: CellResult, source: str) -> None:
        """A cell has ended, well or not, on the ranks that it was sent to; "" is the source of what is no cell."""
        for outcome in result.outcomes if source else ():
            ran = self._ran.setdefault(outcome.rank, {})
            if result.cell not in ran:
                for older in [cell for cell, (text, _) in ran.items() if text == source]:
                    del ran[older]
                ran[result.cell] = source, outcome.ok

    def cells(self, rank: int) -> list[tuple[int, str, bool]]:
        """A rank's cells: number, source, and whether it ended well."""
        return [(cell, *ran) for cell, ran in sorted(self._ran.get(rank, {}).items())]


def restore(cluster: Cluster, ranks: Sequence[int], cells: Cells) -> RestoreEnded:
    """Restore these ranks at once; one that has not done it in `RESTORE_S`, or has died of it, is stuck."""
    kept: dict[int, Kept] = {rank: cluster.twins.take(rank) for rank in ranks}
    pendings: dict[int, Pending] = {}
    for rank in ranks:
        path = kept[rank].path
        payload = {"path": str(path) if path else "", "cell": kept[rank].cell, "cells": [list(one) for one in cells(rank)]}
        pendings[rank] = cluster.transport.request(rank, "restore", payload)
    end_s = time.monotonic() + RESTORE_S
    found, stuck = [], []
    for rank, pending in pendings.items():
        wait([pending.future], timeout=max(0.0, end_s - time.monotonic()))
        outcome = pending.future.result().outcome if pending.done else None
        if outcome is None or outcome.status == "dead":
            stuck.append(rank)
        else:
            why = str(outcome.error or outcome.status) if not outcome.ok else kept[rank].why
            found.append(_restored(rank, kept[rank].cell, outcome.value or {}, why))
    for each in kept.values():
        if each.path is not None:
            each.path.unlink(missing_ok=True)
    return RestoreEnded(tuple(found), tuple(stuck))


def _restored(rank: int, cell: int, value: dict[str, Any], why: str) -> Restored:
    names, made = (tuple(name for name in value.get(key, ()) if not name.startswith("_")) for key in ("names", "made"))
    return Restored(rank, cell, names, made, value.get("lost", {}), value.get("remarks", {}), why)
