"""Schedules in the fake world: exact results, the model's seconds, and every fault seen as on real ranks, in milliseconds."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy
import pytest

from labkit.driver.current import HOLDER
from labkit.errors import RankDead, UsageError
from labkit.faults import FAULTS
from labkit.schedule import ALGORITHMS, Link, Transfer, from_steps, predict
from labkit.schedule.records import FAR_OFF
from labkit.schedule.sweeps import LIBRARY_MODELS
from labkit.testing import fake_world
from labkit.views import to_html, to_text
from labkit.wire import dumps, loads

LINK = Link.of(latency_us=20, gb_per_s=2)
FIRING = [fault.name for fault in FAULTS.values() if fault.in_schedule is not None]
FIRED_IN = [(2, "ring"), (3, "ring"), (4, "ring"), (4, "binomial-tree"), (4, "everyone"), (5, "naive"), (8, "halving-doubling")]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_algorithm_is_right_and_takes_what_the_model_says(ranks: int) -> None:
    with fake_world(ranks, link=LINK) as world:
        for name in ALGORITHMS:
            for numel in (0, 1, 1001, 960):
                run = world.run_schedule(name, numel=numel, dtype="int32")
                assert run.ok, run
                assert loads(dumps(run)) == run
            wanted_s = predict(name, ranks, 960 * 4, LINK).seconds
            if (ranks, name) != (8, "double-tree"):  # its steps have ranks with two partners, which take their turns
                assert run.seconds == pytest.approx(wanted_s, abs=1e-9), name
                assert sum(run.step_s) >= run.seconds - 1e-9
        assert world.diagnose().healthy


@pytest.mark.parametrize("op", ["sum", "avg", "max", "min", "product"])
def test_every_op(op: str) -> None:
    with fake_world(4) as world:
        for dtype in ("float32", "float64") if op == "avg" else ("float32", "int64", "uint8"):
            assert world.run_schedule("ring", numel=100, op=op, dtype=dtype, trace=False).ok
        with pytest.raises(UsageError, match="no bfloat16"):
            world.run_schedule("ring", numel=100, dtype="bfloat16")


def test_a_variable_is_read_and_left_as_it_is() -> None:
    with fake_world(3) as world:
        world.run_cell("x = torch.arange(6.).reshape(2, 3) * (rank + 1)\nz = torch.zeros(3 + (rank == 1))\nn = 5")
        run = world.run_schedule("ring", tensor="x", into="y")
        assert (run.ok, run.num_elements, run.dtype) == (True, 6, "float32")
        for value in world.pull("y").values():
            assert numpy.array_equal(value, numpy.arange(6.0).reshape(2, 3) * 6)
        assert [value[1, 2] for value in world.pull("x").values()] == [5.0, 10.0, 15.0]
        assert world.run_schedule("ring-all-gather", tensor="x").num_elements == 18
        for name, says in (("z", "not the same size"), ("n", "not a tensor"), ("nowhere", "no variable")):
            with pytest.raises(UsageError, match=says):
                world.run_schedule("ring", tensor=name)


def test_a_wrong_schedule_of_ones_own_is_seen_in_the_result() -> None:
    swap = [[Transfer(0, 1, 0, 1, reduce=True)], [Transfer(1, 2, 0, 1, reduce=True)]]
    with fake_world(3) as world:
        run = world.run_schedule(from_steps("mine", "all_reduce", 3, 1, swap), numel=10, dtype="int32")
    assert (run.agrees, run.counted, run.disagreeing) == (False, True, (0, 1))


# ---- measured
def test_comparisons_sweeps_and_crossings_are_the_models() -> None:
    with fake_world(4, link=LINK) as world:
        started_s = time.perf_counter()
        found = world.compare(["ring", "binomial-tree"], num_bytes=1 << 20, rounds=3)
        for timing, name in zip(found.timings, ("ring", "binomial-tree", "ring"), strict=True):
            assert timing.times_s == pytest.approx([predict(name, 4, 1 << 20, LINK).seconds] * 3)
        told: list[int] = []
        names = [*LIBRARY_MODELS, "ring", "recursive-doubling"]
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
        assert time.perf_counter() - started_s < 3.0
        for drawn in (found, swept, crossing):
            assert to_text(drawn)
            assert to_html(drawn)


# ---- faults
def test_a_run_that_did_not_end_says_why_and_what_to_do_next() -> None:
    with fake_world(4) as world:
        with world.inject("killed", rank=2, at=3):
            run = world.run_schedule("ring", numel=100)
        for drawn in (str(run), to_html(run)):
            assert "rank 2 died" in drawn
            assert "world.recover() starts rank 2 again" in drawn
        world.recover()


@pytest.mark.parametrize("name", FIRING)
@pytest.mark.parametrize(("ranks", "algorithm"), FIRED_IN)
def test_a_fault_fires_in_its_move_and_the_world_mends(ranks: int, algorithm: str, name: str) -> None:
    expected = FAULTS[name].in_schedule
    assert expected is not None
    for rank in sorted({0, ranks // 2, ranks - 1}):
        for at in (1, 2):
            with fake_world(ranks) as world:
                with world.inject(name, rank=rank, at=at) as fault:
                    run = world.run_schedule(algorithm, numel=1680)
                if not fault.record.fired:
                    assert "did not fire" in run.notes[0]
                    assert run.ok
                    continue
                assert run.notes == (f"the fault {name} fired on rank {rank}",)
                assert (fault.record.fired, fault.record.ending) == (1, expected.ending)
                verdict = run.diagnosis.verdict if run.diagnosis is not None else None
                assert verdict is not None, (rank, at, str(run))
                assert verdict.code in expected.codes, (rank, at, verdict)
                assert verdict.culprits == (rank,), (rank, at, verdict)
                assert f" of {algorithm}" in verdict.sentence
                assert verdict.ending in (expected.ending, "silent" if expected.ending == "abort" else expected.ending)
                assert fault.record.verdict == verdict.code
                assert run.agrees == (expected.ending == "slow")
                assert loads(dumps(run)) == run
                world.recover()
                again = world.run_schedule(algorithm, numel=1680)
                assert again.ok
                assert again.diagnosis is None


def test_sentences() -> None:
    wait = "in step 2 of ring; rank 3 waits for its message in step 2, and ranks 0 and 1 wait in turn."
    said = {
        "killed": f"rank 2 died (killed by SIGKILL) {wait}",
        "stopped": f"rank 2 is stopped (SIGSTOP) {wait}",
        "rank-raises": f"rank 2 raised PlannedFault {wait}",
        "leaves-early": f"rank 2 left the schedule {wait}",
        "busy-python": f"rank 2 is busy in Python {wait}",
        "slow": "rank 2 began step 2 of ring 1.50 s late, and ranks 0, 1 and 3 waited for it.",
        "reduce-op-mismatch": "rank 2 reduces with max in step 2 of ring, where its program says sum: the results are wrong.",
        "skipped-collective": "rank 2 skipped its part of step 2 of ring; from there on the wrong messages are matched: "
        "rank 3 waits for its message in step 5, and rank 1 waits in turn.",
    }
    for name, sentence in said.items():
        with fake_world(4) as world, world.inject(name, rank=2, at=3):
            assert world.run_schedule("ring", numel=1200).diagnosis.verdict.sentence == sentence
    with fake_world(4) as world, world.inject("shape-mismatch", rank=2, at=2):
        run = world.run_schedule("binomial-tree", numel=1200)
    assert (run.ended, run.counted, run.ranks[2].sent_bytes) == (True, False, 600 * 4 + 1200 * 4)
    verdict = run.diagnosis.verdict
    assert verdict.culprits == (2,)
    assert verdict.sentence == (
        "rank 2 sent 600 elements of float32 to rank 0 in step 1 of binomial-tree, where its program says 1200: "
        "no rank gets an error, and the sums are wrong."
    )


def test_a_fault_that_can_not_fire_is_told_and_nothing_is_measured_with_one() -> None:
    with fake_world(3) as world:
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


def test_what_came_before_is_not_the_schedules_and_the_other_way_round() -> None:
    with fake_world(3) as world:
        assert world.try_fault("reduce-op-mismatch", 0).diagnosis.verdict.code == "LK006"
        assert world.run_schedule("ring", numel=100).diagnosis is None
        with world.inject("slow", rank=2):
            assert world.run_schedule("ring", numel=100).diagnosis.verdict.code == "LK011"
        assert world.run_schedule("ring", numel=100).diagnosis is None
        assert world.run_cell("x = torch.ones(1)\ndist.all_reduce(x)").diagnosis is None


def test_a_dead_rank_is_told_by_what_measures() -> None:
    with fake_world(3) as world:
        with world.inject("killed", rank=1):
            world.run_schedule("ring")
        with pytest.raises(RankDead, match="rank 1 is gone"):
            world.compare(["ring"])
        assert world.recover().replaced == (1,)
        assert world.compare(["ring"], rounds=1).timings


class Heard:
    """A teller that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.say = self.said.append


def test_what_takes_long_is_told_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setattr(HOLDER, "progress", lambda: nullcontext(heard))
    with fake_world(4) as world:
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


def test_nan_and_infinity_in_the_same_places_are_the_same() -> None:
    with fake_world(3) as world:
        world.run_cell("g = torch.ones(4)\ng[1] = float('nan')\ng[2] = float('inf')")
        run = world.run_schedule("ring", tensor="g")
        assert run.ok
        assert "nan" not in (str(run) + to_text(run)).lower()
        ranks = (replace(run.ranks[0], agrees=False, worst=FAR_OFF), *run.ranks[1:])
        wrong = replace(run, ranks=ranks)
        assert "NaN or infinity in other places" in str(wrong)
        assert "NaN or infinity in other places" in to_html(wrong)


def test_what_only_moves_numbers_has_nothing_to_average() -> None:
    with fake_world(3) as world:
        world.run_cell("x = torch.ones(3) * (rank + 3)")
        for name, expected in (("binomial-broadcast", [3, 3, 3]), ("ring-all-gather", [3, 3, 3, 4, 4, 4, 5, 5, 5])):
            assert world.run_schedule(name, tensor="x", op="avg", into="y").ok
            assert world.pull("y", 1)[1].tolist() == expected


@pytest.mark.parametrize("into", [5, "y z", "x.y", "class", "", "torch", "rank", "__builtins__", None, ["y"]])
def test_a_result_is_not_put_where_no_variable_can_be(into: object) -> None:
    with fake_world(2) as world:
        if into == "":
            assert world.run_schedule("ring", numel=4, into=into).ok
            return
        with pytest.raises(UsageError, match=r"is not a variable name|need themselves"):
            world.run_schedule("ring", numel=4, into=into)  # type: ignore[arg-type]
        assert world.run_schedule("ring", numel=4, into="fine").ok


def test_an_interrupt_while_requests_go_out_waits_until_all_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real signal after the first rank has its request: the others get theirs, and then the ranks are freed."""
    with fake_world(3) as world:
        transport, sent = world.core.cluster.transport, []
        request = transport.request

        def interrupted(rank: int, *args: object, **options: object) -> object:
            pending = request(rank, *args, **options)  # type: ignore[arg-type]
            sent.append(rank)
            if len(sent) == 1:
                signal.raise_signal(signal.SIGINT)
            return pending

        for work in (
            lambda: world.run_cell("x = torch.ones(1)\ndist.all_reduce(x)"),
            lambda: world.sweep([1024], rounds=1),
            lambda: world.run_schedule("ring", numel=4),
            lambda: world.push(x=3),
        ):
            monkeypatch.setattr(transport, "request", interrupted)
            sent.clear()
            with suppress(KeyboardInterrupt):
                work()
            assert sent[:3] == [0, 1, 2]
            monkeypatch.setattr(transport, "request", request)
            assert world.run_schedule("ring", numel=100).ok
            assert world.run_cell("dist.barrier()").ok
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
