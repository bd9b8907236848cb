"""Schedules on live ranks: every algorithm gives what the library gives, with the messages and bytes it declares."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy
import pytest

from labkit.driver.world import World
from labkit.errors import RankDead, UnknownName, UsageError
from labkit.plain import dumps, loads
from labkit.schedule import ALGORITHMS, Transfer, from_steps

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]
MIB = 2**20


@pytest.mark.parametrize(("ranks", "mode"), [(2, "raw"), (3, "safe"), (4, "raw")])
def test_every_algorithm_equals_the_library_and_its_own_declaration(world_of: WorldMaker, ranks: int, mode: str) -> None:
    world = world_of(ranks, mode)
    for name in ALGORITHMS:
        for numel in (0, 1, 1001):
            for trace in (True, False):
                run = world.run_schedule(name, numel=numel, dtype="int32", trace=trace)
                assert run.ok, f"{run} {run.declared}"
                assert loads(dumps(run)) == run
    assert world.diagnose().healthy


def test_eight_ranks(world_of: WorldMaker) -> None:
    world = world_of(8)
    for name in ("ring", "hierarchical", "double-tree", "halving-doubling", "pairwise-all-to-all"):
        assert world.run_schedule(name, numel=1003, dtype="int64", trace=False).ok, name


@pytest.mark.parametrize("op", ["sum", "avg", "max", "min", "product"])
def test_every_op_and_dtype(world_of: WorldMaker, op: str) -> None:
    world = world_of(4)
    for dtype in ("float32", "float64", "bfloat16") if op == "avg" else ("float32", "bfloat16", "int64", "uint8"):
        for name in ("ring", "recursive-doubling", "everyone"):
            run = world.run_schedule(name, numel=4099, dtype=dtype, op=op, trace=False)
            assert run.ok, run
            if ALGORITHMS[name].identical:
                assert len({each.digest for each in run.ranks}) == 1


def test_messages_of_many_pieces_that_do_not_divide(world_of: WorldMaker) -> None:
    world = world_of(4)
    for name in ("ring", "everyone", "halving-doubling", "unchunked-ring", "double-tree", "pairwise-all-to-all"):
        assert world.run_schedule(name, numel=3 * MIB + 5, dtype="int32", trace=False).ok, name


def test_steps_are_timed_on_every_rank_and_add_up(world_of: WorldMaker) -> None:
    world = world_of(4)
    runs = [world.run_schedule("ring", numel=MIB) for _ in range(5)]
    run = runs[0]
    assert [len(each.step_s) for each in run.ranks] == [6] * 4
    shares = [sum(each.step_s) / each.seconds for run in runs for each in run.ranks]
    assert max(shares) <= 1
    for each in runs:
        assert min(rank.early_s for rank in each.ranks) == 0
        assert max(rank.seconds - rank.early_s for rank in each.ranks) == pytest.approx(each.seconds)
    assert statistics.median(shares) > 0.99  # a rank may lose its core between two clocks, not most of them most of the time
    assert "ring, 4 MiB of float32 on 4 ranks" in " ".join(str(run).split())


def test_a_variable_is_read_and_left_as_it_is(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("x = torch.arange(6.).reshape(2, 3) * (rank + 1); dist.barrier()")
    run = world.run_schedule("ring", tensor="x", into="y")
    assert run.ok
    assert (run.num_elements, run.dtype) == (6, "float32")
    for rank, value in world.pull("y").items():
        assert numpy.array_equal(value, numpy.arange(6.0).reshape(2, 3) * 6), rank
    assert [value[1, 2] for value in world.pull("x").values()] == [5.0, 10.0, 15.0]
    assert world.run_schedule("ring-all-gather", tensor="x").num_elements == 18
    # a learner's calls keep their numbers
    assert world.run_cell("dist.all_reduce(x)").ok
    assert [call.seq for call in world.diagnose().evidence.ranks[0].calls if call.op == "all_reduce"] == [2]


def test_a_wrong_schedule_of_ones_own_is_seen_in_the_result(world_of: WorldMaker) -> None:
    world = world_of(3)
    swap = [[Transfer(0, 1, 0, 1, reduce=True)], [Transfer(1, 2, 0, 1, reduce=True)]]  # nobody tells ranks 0 and 1
    run = world.run_schedule(from_steps("mine", "all_reduce", 3, 1, swap), numel=10, dtype="int32")
    assert (run.agrees, run.counted) == (False, True)
    assert [each.agrees for each in run.ranks] == [False, False, True]
    assert not replace(run, declared=((0, 0, 0, 0),) * 3).counted


def test_what_can_not_run_is_refused_before_anything_is_sent(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("z = torch.zeros(3 + (rank == 1)); n = 5")
    with pytest.raises(UsageError, match="differs in size or dtype"):
        world.run_schedule("ring", tensor="z")
    world.run_cell("z = torch.zeros(3, dtype=torch.int32 if rank else torch.float32); b = torch.zeros(3, dtype=torch.bool)")
    with pytest.raises(UsageError, match="differs in size or dtype"):
        world.run_schedule("ring", tensor="z")
    with pytest.raises(UsageError, match="the dtype of b is bool"):
        world.run_schedule("ring", tensor="b")
    with pytest.raises(UsageError, match="not a tensor"):
        world.run_schedule("ring", tensor="n")
    with pytest.raises(UsageError, match="no variable"):
        world.run_schedule("ring", tensor="nowhere")
    with pytest.raises(UnknownName, match="did you mean 'ring'"):
        world.run_schedule("rnig")
    with pytest.raises(UsageError, match="AVG of int32"):
        world.run_schedule("ring", op="avg", dtype="int32")
    with pytest.raises(UsageError, match="for 4 ranks"):
        world.run_schedule(ALGORITHMS["ring"].schedule(4))
    with pytest.raises(UsageError, match="can't be compared"):
        world.compare(["ring-all-gather"])
    assert world.run_schedule("ring", numel=3).ok


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_a_rank_that_dies_in_the_middle_gets_a_verdict(world_of: WorldMaker, mode: str) -> None:
    world = world_of(3, mode)
    pid = world.status().cards[1].pid
    os.kill(pid, signal.SIGSTOP)
    killer = threading.Timer(1.0, os.kill, (pid, signal.SIGKILL))
    killer.start()
    began = time.monotonic()
    run = world.run_schedule("ring", numel=4 * MIB, trace=False)
    killer.join()
    assert time.monotonic() - began < 5
    assert not run.ended
    assert run.diagnosis is not None
    assert run.diagnosis.verdict is not None
    assert (run.diagnosis.verdict.code, run.diagnosis.verdict.culprits) == ("LK001", (1,))
    assert "did not end" in " ".join(str(run).split())
    assert world.recover().replaced == (1,)
    assert world.run_schedule("ring", numel=1000).ok


def test_several_side_by_side_with_the_library(world_of: WorldMaker) -> None:
    found = world_of(4).compare(["ring", "binomial-tree"], num_bytes=MIB, rounds=3)
    assert [each.name for each in found.timings] == ["ring", "binomial-tree", "library"]
    assert all(len(each.times_s) == 3 and each.low_s > 0 for each in found.timings)
    assert found.speed("library") == 1
    assert "of the library's speed" in " ".join(str(found).split())


# ---- sweeps
def test_a_sweep_measures_library_and_schedules_and_says_where_it_is(world_of: WorldMaker) -> None:
    told: list[tuple[int, int, str]] = []
    names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "ring"]
    found = world_of(3).sweep(
        [1000, 9000], names, rounds=2, warmups=1, on_progress=lambda done, of, point: told.append((done, of, point.name))
    )
    assert [name for _, _, name in told] == names * 2
    assert told[-1][:2] == (14, 14)
    gathered = found.of("all_gather")[0]
    assert (gathered.num_bytes, gathered.count, len(gathered.times_s)) == (996, 83, 2)  # what 3 ranks can share, in float32
    assert gathered.busbw_gb_per_s == pytest.approx(gathered.num_bytes / gathered.median_s / 1e9 * 2 / 3)
    assert not found.interrupted
    assert loads(dumps(found)) == found


def test_an_interrupted_sweep_keeps_what_was_measured_and_the_world(world_of: WorldMaker) -> None:
    world = world_of(2)

    def stop_at_three(done: int, of: int, point: object) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = world.sweep("1K:64K:2", rounds=1, warmups=0, on_progress=stop_at_three)
    assert (len(found.points), found.interrupted) == (3, True)
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    found = world.sweep([1 << 12, 1 << 26], ["ring"], rounds=500, warmups=0)
    assert (found.interrupted, len(found.points) < 2) == (True, True)
    assert world.run_schedule("ring", numel=5).ok


def test_a_rank_that_dies_in_a_sweep_leaves_what_was_measured(world_of: WorldMaker) -> None:
    world = world_of(3)
    pid = world.status().cards[2].pid

    def kill(done: int, of: int, point: object) -> None:
        if done == 2:
            os.kill(pid, signal.SIGKILL)

    found = world.sweep("1K:16K:2", rounds=1, warmups=0, on_progress=kill)
    assert len(found.points) == 2
    assert "rank 2" in found.error
    with pytest.raises(RankDead):
        world.compare(["ring"])
    world.recover()


def test_one_rank_alone(world_of: WorldMaker) -> None:
    world = world_of(1)
    for name in ALGORITHMS:
        assert world.run_schedule(name, numel=7).ok, name
    assert world.compare("ring", rounds=1).speed("library") == 1
    assert world.sweep([100], ["all_reduce", "all_gather"], rounds=1).of("all_reduce")[0].busbw_gb_per_s == 0


def test_a_predicted_crossing_is_measured(world_of: WorldMaker) -> None:
    found = world_of(4).crossing("recursive-doubling", "ring", rounds=2)
    assert found.link.alpha_s > 0
    assert len(found.comparisons) >= 4
    assert "cross: predicted" in " ".join(str(found).split())


def test_a_sweep_of_some_ranks_leaves_the_others_alone(world_of: WorldMaker) -> None:
    world = world_of(4)
    swept = world.sweep([1024, 4096], ["all_reduce", "ring", "all_gather"], ranks=[1, 3], rounds=3)
    assert {(point.name, point.world_size, len(point.times_s)) for point in swept.points} == {
        ("all_reduce", 2, 3), ("ring", 2, 3), ("all_gather", 2, 3),
    }  # fmt: skip
    assert swept.world_size == 2
    assert world.sweep([1024], ranks=[3, 0], rounds=2).points  # rank 3's second group, and rank 0's first
    assert world.sweep([1024], ranks=[0], rounds=2).points[0].busbw_gb_per_s == 0.0
    with pytest.raises(UsageError, match="no rank 4"):
        world.sweep([1024], ranks=[0, 4])
    assert world.diagnose().healthy
    world.interrupt()
    assert world.sweep([1024], ranks=[1, 3], rounds=2).points


def test_an_interrupt_while_requests_go_out_leaves_a_usable_world(world_of: WorldMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(3)
    transport = world.core.cluster.transport
    request = transport.request
    for work in (
        lambda: world.run_cell("x = torch.ones(1)\nfor _ in range(10**6):\n    dist.all_reduce(x)"),
        lambda: world.sweep([1 << 20], rounds=3),
        lambda: world.run_schedule("ring", numel=MIB),
        lambda: world.push(x=3),
    ):
        sent: list[int] = []

        def interrupted(rank: int, *args: object, **options: object) -> object:
            pending = request(rank, *args, **options)  # type: ignore[arg-type]
            sent.append(rank)  # noqa: B023
            if len(sent) == 1:  # noqa: B023
                signal.raise_signal(signal.SIGINT)
            return pending

        monkeypatch.setattr(transport, "request", interrupted)
        with suppress(KeyboardInterrupt):
            work()
        monkeypatch.setattr(transport, "request", request)
        assert sent[:3] == [0, 1, 2]
        assert world.run_schedule("ring", numel=100).ok


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # cut between open() and its `with`
def test_ranks_that_are_interrupted_while_messages_flow_keep_their_variables(world_of: WorldMaker) -> None:
    world = world_of(3)
    kept = 0
    for number in range(12):
        world.run_cell("keep = rank")
        timer = threading.Timer(0.03 + 0.01 * number, os.kill, (os.getpid(), signal.SIGINT))
        with suppress(KeyboardInterrupt):
            timer.start()
            world.sweep([64 * MIB], ["ring"], rounds=50)
        timer.join()
        assert world.run_schedule("ring", numel=100).ok, number
        kept += world.run_cell("keep").ok
    assert kept >= 11  # a rank that has no core for long can look as if it were at rest


def test_numbers_that_are_none(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("g = torch.tensor([1.0, float('nan'), float('inf'), -float('inf')]); globals()[5] = 1")
    run = world.run_schedule("ring", tensor="g", into="h")
    assert run.ok, run
    world.run_cell("x = torch.ones(3) * (rank + 3)")
    assert world.run_schedule("binomial-broadcast", tensor="x", op="avg", into="y", root=1).ok
    assert [value.tolist() for value in world.pull("y").values()] == [[4.0] * 3] * 3
