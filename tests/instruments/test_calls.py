"""`world.calls()`: the picture of the newest cell, from the beacons, while ranks hang and after they have come back."""

from __future__ import annotations

from labkit.instruments.calls import so_far
from labkit.testing import Script, call, late, ok


def test_calls_of_a_world_that_hangs_name_who_and_where() -> None:
    with Script(ranks=4).world(deadline_s=1.0) as world:
        program = (call("all_reduce", 1, line=1), call("all_reduce", 2, line=2))
        world.core.cluster.on("cell", {rank: late(*program) if rank != 2 else ok(calls=program[:1]) for rank in range(4)})
        world.run_cell("dist.all_reduce(x)\ndist.all_reduce(y)")
        grid = world.calls()
    assert (grid.code, grid.culprits) == ("LK007", (2,))
    (track,) = grid.tracks
    assert [row.end for row in track.rows] == ["", "", "left", ""]
    assert "> rank 2  A  [-]" in str(grid)


def test_calls_of_a_healthy_world() -> None:
    with Script(ranks=2).world() as world:
        assert world.calls().sentence == "no call of a group yet"
        world.core.cluster.on("cell", ok(calls=(call("broadcast", 1), call("all_reduce", 2))))
        world.run_cell("...")
        grid = world.calls()
    assert (grid.accent, grid.sentence) == ("good", "2 calls, the same on all 2 ranks")
    assert grid.num_calls == 4


def test_what_a_running_cell_has_called_so_far_is_its_own_calls_alone() -> None:
    with Script(ranks=2).world() as world:
        world.core.cluster.on("cell", ok(calls=(call("broadcast", 1),)))
        world.run_cell("...")
        grid = so_far(world.core)
        assert grid is not None
        assert grid.cells == (world.cell,)
        world.run_cell("...")  # makes no call
        assert so_far(world.core) is None
    assert so_far(world.core) is None
