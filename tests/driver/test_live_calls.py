"""The picture of calls on live ranks: the hole at the line that was skipped, and a cell's calls while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from labkit.driver.world import World
from labkit.instruments.calls import so_far

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]

LOOP = """x = torch.ones(8)
for step in range(30):
    dist.all_reduce(x)
    if not (rank == 1 and step == 20):
        dist.all_reduce(x)"""
SLOW = """import time
for step in range(6):
    time.sleep(0.2)
    dist.all_reduce(torch.ones(1))"""


def test_a_skip_in_a_loop_is_a_hole_at_its_line(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell(LOOP, deadline_s=10)
    grid = world.calls()
    assert (grid.code, grid.culprits) == ("LK009", (1,))
    (track,) = grid.tracks
    (odd,) = [row for row in track.rows if row.odd]
    (hole,) = [at for at, place in enumerate(odd.places) if place.hole]
    assert hole == track.frame
    other = next(row for row in track.rows if not row.odd).places[hole].call
    assert other is not None
    assert (other.seq, other.site and other.site.line) == (42, 5)
    assert track.num_wrong == 60 - 42
    world.recover()


def test_a_running_cell_can_be_looked_at(world_of: WorldMaker) -> None:
    world = world_of(2)
    numbers: list[int] = []
    thread = threading.Thread(target=world.run_cell, args=(SLOW,))
    thread.start()
    while thread.is_alive():
        grid = so_far(world.core)
        numbers += [grid.tracks[0].num_columns] if grid is not None and grid.tracks else []
        time.sleep(0.05)
    thread.join()
    assert numbers == sorted(numbers)
    assert len(set(numbers)) >= 3, "it grows while the cell runs"
