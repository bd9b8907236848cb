"""Ranks whose calls return when they are enqueued, as NCCL's do: on gloo, with waits that return at once.

What NCCL's stream does, the shim does on the host: whoever reads a tensor waits for what is enqueued.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labkit.driver.current import HOLDER
from labkit.driver.start import start
from labkit.driver.world import World
from labkit.ring import read_ring
from labkit.wire import Call

pytestmark = pytest.mark.gloo

SHIM = """
import time
tap = next(cell.cell_contents for cell in dist.all_reduce.__closure__ if type(cell.cell_contents).__name__ == "Tap")
tap.completes_on_return = False
_wait = dist.Work.wait
dist.Work.wait = lambda self, *timeout: True if getattr(tap._here, "call", None) else _wait(self, *timeout)
def _read(name):
    original = getattr(torch.Tensor, name)
    def reading(self):
        while len(tap.open_calls):
            tap.open_calls.sweep()
            time.sleep(0.0005)
        return original(self)
    setattr(torch.Tensor, name, reading)
for _name in ("item", "tolist"):
    _read(_name)
"""
TWO_CALLS = """
a, b = torch.full((4,), rank + 1.0), torch.full((4,), 10.0 * (rank + 1))
{before}
dist.all_reduce(a)
dist.broadcast(b, 0)
"""
READ = "a.tolist(), b.tolist()\n"


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    HOLDER.close()


@pytest.fixture
def world() -> Iterator[World]:
    if HOLDER.world is not None:
        HOLDER.world.stop()
    made = start(3, "gloo")
    assert made.run_cell(SHIM).ok
    yield made
    made.stop()


def calls(world: World, rank: int) -> list[Call]:
    ring = read_ring(world.core.cluster.folder.path / f"rank-{rank}.beacon")
    assert ring is not None
    return list(ring.calls)


def test_a_healthy_cell_leaves_nothing_open(world: World) -> None:
    result = world.run_cell(TWO_CALLS.format(before="pass") + READ)
    assert {outcome.shown.text for outcome in result.outcomes if outcome.shown} == {str(([6.0] * 4, [10.0] * 4))}
    assert result.diagnosis is None
    assert {call.state for rank in range(3) for call in calls(world, rank)} == {"done"}


def test_a_cell_ends_when_its_calls_have_ended(world: World) -> None:
    """Nobody reads the tensors, and still the cell is over no sooner than the late rank's calls."""
    result = world.run_cell(TWO_CALLS.format(before="time.sleep(0.6) if rank == 2 else None"))
    assert result.ok
    assert min(outcome.elapsed_s for outcome in result.outcomes) > 0.5
    assert {call.state for rank in range(3) for call in calls(world, rank)} == {"done"}


def test_a_hang_belongs_to_its_cell_and_the_world_comes_back(world: World) -> None:
    before = "if rank == 2: raise ValueError('no data')"
    result = world.run_cell(TWO_CALLS.format(before=before), deadline_s=3.0)
    assert [outcome.status for outcome in result.outcomes if outcome.rank != 2] != ["ok", "ok"]
    assert result.diagnosis is not None
    assert result.diagnosis.verdict is not None
    assert result.diagnosis.verdict.code == "LK003"
    waiting = calls(world, 0)
    assert [call.op for call in waiting] == ["all_reduce", "broadcast"]
    assert waiting[0].state != "done"
    report = world.recover()
    assert report.rung == "soft", report.steps
    assert world.run_cell("tap.completes_on_return = False").ok  # the new generation is gloo's again
    assert [value[0] for value in world.run("all_reduce").values] == [6.0] * 3
