"""Runs, comparisons, sweeps and crossings, on ranks that answer what the cost model says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from labkit.driver.current import HOLDER
from labkit.driver.world import World
from labkit.errors import RankDead, UsageError
from labkit.faults import FAULTS
from labkit.schedule import ALGORITHMS, predict
from labkit.schedule.records import FAR_OFF
from labkit.schedule.sweeps import LIBRARY_MODELS
from labkit.testing import Script, dies, late
from labkit.views import to_html, to_text
from labkit.wire import dumps, loads

from ..modelled import LINK, modelled


@pytest.fixture
def script() -> Script:
    return modelled(4)


@pytest.fixture
def world(script: Script) -> Iterator[World]:
    with script.world() as made:
        yield made


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_is_what_the_ranks_told(world: World, name: str) -> None:
    for numel in (0, 1, 1001, 960):
        run = world.run_schedule(name, numel=numel, dtype="int32")
        assert run.ok, run
        assert loads(dumps(run)) == run
    assert run.seconds == pytest.approx(predict(name, 4, 960 * 4, LINK).seconds)
    assert len(run.step_s) == run.num_steps
    assert world.diagnose().healthy


def test_comparisons_sweeps_and_crossings_are_the_models(world: World) -> None:
    found = world.compare(["ring", "binomial-tree"], num_bytes=1 << 20, rounds=3)
    for timing, name in zip(found.timings, ("ring", "binomial-tree", "ring"), strict=True):
        assert timing.times_s == pytest.approx([predict(name, 4, 1 << 20, LINK).seconds] * 3)
    told: list[int] = []
    names = ["all_reduce", "ring", "recursive-doubling"]
    swept = world.sweep("1K:4M:4", names, on_progress=lambda done, of, point: told.append(done))
    assert told == list(range(1, 7 * len(names) + 1))
    for point in swept.points:
        model = LIBRARY_MODELS.get(point.name, point.name)
        assert point.median_s == pytest.approx(predict(model, 4, point.num_bytes, LINK).seconds), point
    two = world.sweep([4096], ["ring"], ranks=[1, 3])
    assert two.points[0].median_s == pytest.approx(predict("ring", 2, 4096, LINK).seconds)
    assert (two.where, swept.where) == ("ranks 1 and 3 of 4", "")
    crossing = world.crossing("recursive-doubling", "ring")
    assert crossing.measured_bytes == pytest.approx(crossing.predicted_bytes, rel=0.02)
    for drawn in (found, swept, crossing):
        assert to_text(drawn)
        assert to_html(drawn)


def test_a_run_that_did_not_end_says_why_and_what_to_do_next(script: Script, world: World) -> None:
    script.on("schedule", lambda rank, asked: dies() if rank == 2 else late())
    run = world.run_schedule("ring", numel=100)
    for drawn in (str(run), to_html(run)):
        assert "rank 2 died" in drawn
        assert "world.recover() starts rank 2 again" in drawn
    with pytest.raises(RankDead, match="the process of rank 2 has exited"):
        world.compare(["ring"])
    assert world.recover().replaced == (2,)
    assert world.compare(["ring"], rounds=1).timings


def test_a_fault_that_can_not_fire_is_told_and_nothing_is_measured_with_one(world: World) -> None:
    for name in (fault.name for fault in FAULTS.values() if fault.in_schedule is None):
        with world.inject(name, rank=1) as fault:
            run = world.run_schedule("ring", numel=100)
            assert run.ok
            assert run.notes == (f"the fault {name} on rank 1 does not apply to a schedule: it did not fire",)
            assert fault.record.fired == 0
            with pytest.raises(UsageError, match=f"{name} is armed on rank 1, and a sweep measures"):
                world.sweep([1024])
            with pytest.raises(UsageError, match=f"{name} is armed on rank 1, and a comparison measures"):
                world.compare(["ring"])
    with world.inject("killed", rank=2, at=9):
        run = world.run_schedule("ring", numel=100)
    assert run.notes == ("the fault killed did not fire: it waits for move 9, and rank 2 makes 6 in ring",)


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.say = self.said.append


def test_what_takes_long_is_told_as_it_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setattr(HOLDER, "progress", lambda: nullcontext(heard))
    world.sweep([1024, 2048], ["ring", "all_reduce"])
    assert heard.said == [
        "measuring ring at 1 KiB: 1 of 4", "measuring all_reduce at 1 KiB: 2 of 4",
        "measuring ring at 2 KiB: 3 of 4", "measuring all_reduce at 2 KiB: 4 of 4",
    ]  # fmt: skip
    heard.said.clear()
    world.sweep([1024], on_progress=lambda done, number, point: None)  # who asks for it tells it in another way
    assert heard.said == []
    world.crossing("recursive-doubling", "ring", rounds=1)
    assert heard.said[0] == "recursive-doubling beside ring at 1 KiB"


def test_a_difference_that_is_no_number_is_said_in_words(world: World) -> None:
    run = world.run_schedule("ring", numel=4)
    wrong = replace(run, ranks=(replace(run.ranks[0], agrees=False, worst=FAR_OFF), *run.ranks[1:]))
    assert "NaN or infinity in other places" in " ".join(str(wrong).split())
    assert "NaN or infinity in other places" in to_html(wrong)


@pytest.mark.parametrize("into", [5, "y z", "x.y", "class", "", "torch", "rank", "__builtins__", None, ["y"]])
def test_a_result_is_not_put_where_no_variable_can_be(world: World, into: object) -> None:
    if into == "":
        assert world.run_schedule("ring", numel=4, into=into).ok
        return
    with pytest.raises(UsageError, match=r"is not a variable name|need themselves"):
        world.run_schedule("ring", numel=4, into=into)  # type: ignore[arg-type]
    assert world.run_schedule("ring", numel=4, into="fine").ok
