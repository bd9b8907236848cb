"""What a learner asks a world to run or to measure: what makes sense is taken, the rest is one line before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.driver.world import World
from labkit.errors import UsageError
from labkit.schedule import ALGORITHMS, Schedule, Transfer, from_steps
from labkit.testing import load_record, save_record
from labkit.views import to_html, to_rich, to_text

from ..modelled import modelled

RING, TREE = ALGORITHMS["ring"], ALGORITHMS["double-tree"]
HUGE = 10**5000  # has no text


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with modelled(3).world() as made:
        yield made


def drawn(record: Any) -> str:
    return str(record) + to_text(record) + to_html(record) + str(to_rich(record))


# ---- sizes
@pytest.mark.parametrize("sizes", [[1, 2, 3, 4], [1024, 1024, 1024], "1K,1024", [1024, 1025, 1026], 1024, "1,2,3,4,5"])
def test_sizes_that_come_to_the_same_are_measured_once_and_shown(world: World, sizes: Any, tmp_path: Path) -> None:
    swept = world.sweep(sizes, ["all_reduce", "ring"], rounds=1)
    measured = [(point.name, point.num_bytes) for point in swept.points]
    assert len(measured) == len(set(measured)) == 2
    assert "fit" not in drawn(swept)
    assert load_record(save_record(tmp_path / "sweep.json", swept)).points == swept.points
    with pytest.raises(UsageError, match="1 size of ring is too few"):
        swept.fit("ring")


def test_points_of_one_size_have_no_fit_however_many_there_are(world: World) -> None:
    swept = world.sweep("1K:64K:4", ["ring"])
    assert "fit as ring" in str(swept)
    again = dataclasses.replace(swept, points=swept.points[:2] * 3)
    assert "fit" not in drawn(again)
    with pytest.raises(UsageError, match="2 sizes of ring are too few"):
        again.fit("ring")
    unknown = dataclasses.replace(swept, points=tuple(dataclasses.replace(each, name="mine") for each in swept.points))
    assert "fit" not in drawn(unknown), "no model has that name"


def test_a_name_that_is_given_twice_is_measured_once(world: World) -> None:
    swept = world.sweep([1024, 4096], ["ring", "ring", RING], rounds=1)
    assert [(point.name, point.num_bytes) for point in swept.points] == [("ring", 1024), ("ring", 4096)]


# ---- algorithms
def test_an_algorithm_is_taken_wherever_its_name_is(world: World) -> None:
    doubling = ALGORITHMS["recursive-doubling"]
    assert world.run_schedule(RING).name == "ring"
    assert world.run_schedule(TREE, chunks=2).name == "double-tree"
    assert world.compare(RING, rounds=1).timings[0].name == "ring"
    assert [each.name for each in world.compare([RING, "naive"], rounds=1).timings] == ["ring", "naive", "library"]
    assert world.sweep(1024, RING, rounds=1).names == ("ring",)
    assert world.crossing(doubling, RING, rounds=1).one == "recursive-doubling"
    own = dataclasses.replace(RING, name="mine")
    assert world.run_schedule(own).ok
    with pytest.raises(UsageError, match="mine is not in the catalogue"):
        world.sweep(1024, own)


def test_entries_of_one_name_are_told_apart(world: World) -> None:
    def names(*entries: Any) -> list[str]:
        found = world.compare(list(entries), rounds=1)
        assert all(timing.name in drawn(found) for timing in found.timings)
        return [timing.name for timing in found.timings][:-1]

    assert names("ring", "ring") == ["ring", "ring (2)"]
    assert names(*(TREE.schedule(3, chunks=each) for each in (1, 4))) == ["double-tree (chunks=1)", "double-tree (chunks=4)"]
    assert names("double-tree", "ring") == ["double-tree", "ring"]
    made = RING.schedule(3)
    mine = Schedule("library", "all_reduce", 3, 3, made.build)
    assert names(mine) == ["library (2)"]
    second = dataclasses.replace(made, name="ring (2)")
    assert names(second, "ring", "ring") == ["ring (2)", "ring", "ring (3)"]


def test_a_wrong_schedule_has_no_speed(world: World) -> None:
    lazy = from_steps("lazy", "all_reduce", 3, 1, [[Transfer(0, 1, 0, 1, reduce=True)]])
    with pytest.raises(UsageError, match=r"lazy is not an all-reduce: .*world.run_schedule shows what it does"):
        world.compare(["ring", lazy])
    assert world.cell == 0


# ---- what makes no sense
TURNED_DOWN: list[tuple[Callable[[World], Any], str]] = [
    (lambda world: world.sweep(5.5), "sizes can't be 5.5"),
    (lambda world: world.sweep(None), "sizes can't be None"),
    (lambda world: world.sweep([HUGE]), "sizes can't be"),
    (lambda world: world.sweep([1 << 70]), "sizes can't be"),
    (lambda world: world.sweep("999999999999999G"), "is not a size"),
    (lambda world: world.sweep(1024, None), "None does not name any algorithm"),
    (lambda world: world.sweep(1024, [["ring"]]), "no algorithm ['ring']"),
    (lambda world: world.sweep(1024, [RING.schedule(3)]), "world.compare takes schedules"),
    (lambda world: world.sweep(1024, rounds=0), "0 is not a valid number of rounds"),
    (lambda world: world.sweep(1024, ranks=[0, 0]), "rank 0 is named twice"),
    (lambda world: world.sweep(1024, ranks=[[0]]), "no rank [0]"),
    (lambda world: world.sweep(1024, ranks=1.5), "ranks must be integers, not 1.5"),
    (lambda world: world.sweep(1024, dtype=["x"]), "no dtype ['x']"),
    (lambda world: world.sweep(1024, op=None), "no reduce op None"),
    (lambda world: world.compare(None), "None does not name any algorithm"),
    (lambda world: world.compare(5), "5 does not name any algorithm"),
    (lambda world: world.compare([["ring"]]), "no algorithm ['ring']"),
    (lambda world: world.compare(["ring"], rounds=None), "None is not a valid number of rounds"),
    (lambda world: world.compare(["ring"], num_bytes=HUGE), "an int is not a valid size; give at most"),
    (lambda world: world.compare(["ring-all-gather"]), "all_gather can't be compared"),
    (lambda world: world.run_schedule(["ring"]), "no algorithm ['ring']"),
    (lambda world: world.run_schedule("ring", numel=2**63), "is not a valid size; give at most"),
    (lambda world: world.run_schedule("ring", numel=-1), "give a whole number from 0"),
    (lambda world: world.run_schedule("ring", op=None), "no reduce op None"),
    (lambda world: world.run_schedule("ring", dtype=["x"]), "no dtype ['x']"),
    (lambda world: world.run_schedule(TREE.schedule(3), chunks=2), "so chunks cannot be changed"),
    (lambda world: world.run_schedule(RING.schedule(1)), "a schedule for 1 rank;"),
    (lambda world: world.crossing("ring", "ring"), "ring does not cross itself"),
    (lambda world: world.crossing(RING, "ring"), "ring does not cross itself"),
    (lambda world: world.crossing("ring", None), "no algorithm None"),
]


@pytest.mark.parametrize(("ask", "says"), TURNED_DOWN, ids=[says for _, says in TURNED_DOWN])
def test_what_makes_no_sense_is_one_line_before_anything_runs(world: World, ask: Callable[[World], Any], says: str) -> None:
    turn = world.core.request_id
    with pytest.raises(UsageError) as raised:
        ask(world)
    assert says in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert world.core.request_id == turn, "nothing was asked of a rank"


def test_torchs_own_ops_have_their_names(world: World) -> None:
    assert world.run_schedule("ring", op=SimpleNamespace(name="MAX")).op == "MAX"


def test_one_is_one(world: World) -> None:
    with modelled(1).world() as alone:
        for record in (alone.run_schedule("ring"), alone.compare("ring", rounds=1), alone.sweep(1024, "ring", rounds=1)):
            assert "1 rank" in str(record)
            assert "1 ranks" not in drawn(record)
    assert " 1 message, " in str(world.run_schedule("binomial-tree"))
