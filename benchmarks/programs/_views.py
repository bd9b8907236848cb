"""Pictures: how long from a finished cell to its picture, and what live cards cost a running collective."""

from __future__ import annotations

import time

from labkit import views
from labkit.driver.world import World

from . import _tap


def picture(world: World, numel: int, rounds: int) -> list[float]:
    """Seconds from a finished cell to the text and HTML of its tensor on all ranks."""
    world.run_cell(f"y = torch.ones({numel}); dist.all_reduce(y)", deadline_s=120)
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        table = world.tensors("y")
        views.to_html(table)
        views.to_text(table)
        taken.append(time.perf_counter() - began)
    return taken


def watched(world: World, numel: int, count: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of blocks of all-reduces with and without live cards, in turn."""
    live, taken = world.watch(), {"ours": [], "beside": []}
    for number in range(rounds):
        for name in ("ours", "beside") if number % 2 else ("beside", "ours"):
            if name == "ours":
                views.WATCHER.show(live, lambda *_, **__: None)
            taken[name].append(_tap.all_reduces(world, numel, count))
            views.WATCHER.close()
    return taken
