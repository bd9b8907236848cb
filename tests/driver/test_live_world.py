"""A live world in the hands of a learner: output, variables, bad input, interrupts, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy
import pytest

from labkit.driver.current import HOLDER, current
from labkit.driver.start import start
from labkit.driver.world import World
from labkit.errors import (
    NotEnoughDevices,
    NoWorld,
    RankBusy,
    RankDead,
    UnknownName,
    UsageError,
    WorldMismatch,
)
from labkit.processes import state_of_pid

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]


def texts(world: World, code: str, **options: object) -> list[str]:
    result = world.run_cell(code, **options)  # type: ignore[arg-type]
    assert result.ok, result
    return [outcome.shown.text if outcome.shown else "" for outcome in result.outcomes]


# ---- cells
def test_ranks_are_distinct_processes_that_know_who_they_are(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert texts(world, "(rank, world_size, dist.get_rank(), dist.get_world_size())") == [f"({r}, 3, {r}, 3)" for r in range(3)]
    pids = [card.pid for card in world.status().cards]
    assert len(set(pids)) == 3
    assert texts(world, "__import__('os').getpid()") == [str(pid) for pid in pids]


def test_output_is_streamed_while_the_cell_runs(world_of: WorldMaker) -> None:
    world = world_of(2)
    seen: list[tuple[float, int, str]] = []
    began = time.monotonic()
    world.run_cell(
        "import time\nprint('first', rank, flush=True)\ntime.sleep(0.8)\nprint('second')",
        on_output=lambda rank, name, text: seen.append((time.monotonic() - began, rank, text)),
    )
    first = [at for at, _, text in seen if "first" in text]
    assert len(first) == 2
    assert max(first) < 0.7


def test_output_of_each_rank_is_its_own_and_whole(world_of: WorldMaker) -> None:
    world = world_of(3)
    result = world.run_cell("import sys\nfor i in range(200): print(rank, i)\nprint('oops', file=sys.stderr)")
    for outcome in result.outcomes:
        assert "".join(s.text for s in outcome.output if s.name == "stdout") == "".join(
            f"{outcome.rank} {i}\n" for i in range(200)
        )
        assert "".join(s.text for s in outcome.output if s.name == "stderr") == "oops\n"


def test_an_exception_names_rank_and_line_and_the_world_goes_on(world_of: WorldMaker) -> None:
    world = world_of(3)
    result = world.run_cell("y = 1\nif rank == 1:\n    1 / 0")
    assert [outcome.status for outcome in result.outcomes] == ["ok", "error", "ok"]
    error = result.outcomes[1].error
    assert error is not None
    assert (error.type, error.site and error.site.line, error.site and error.site.cell) == (
        "ZeroDivisionError",
        3,
        str(result.cell),
    )
    assert texts(world, "y") == ["1"] * 3


def test_a_cell_on_some_ranks(world_of: WorldMaker) -> None:
    world = world_of(3)
    result = world.run_cell("only_here = rank", [0, 2])
    assert [outcome.rank for outcome in result.outcomes] == [0, 2]
    assert texts(world, "'only_here' in globals()") == ["True", "False", "True"]


def test_a_world_collective_sent_to_some_ranks_only_is_explained(world_of: WorldMaker) -> None:
    world = world_of(3)
    result = world.run_cell("dist.barrier()", [0, 1], deadline_s=5)
    assert result.diagnosis is not None
    assert result.diagnosis.verdicts[0].code == "LK012"
    assert result.elapsed_s < 2
    world.recover()


def test_rng_differs_between_ranks(world_of: WorldMaker) -> None:
    world = world_of(4)
    assert len(set(texts(world, "torch.initial_seed()"))) == 4
    assert len(set(texts(world, "float(torch.rand(1))"))) == 4


def test_subgroups_are_watched_and_have_a_timeout(world_of: WorldMaker) -> None:
    world = world_of(4)
    code = (
        "pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]\n"
        "x = torch.full((2,), float(rank))\n"
        "dist.all_reduce(x, group=pairs[rank // 2])\nx.tolist()"
    )
    assert texts(world, code) == ["[1.0, 1.0]"] * 2 + ["[5.0, 5.0]"] * 2
    result = world.run_cell("if rank != 3: dist.barrier(group=pairs[rank // 2]) if rank == 2 else None", deadline_s=5)
    assert result.diagnosis is not None
    assert "rank 3 has finished" in result.diagnosis.verdicts[0].sentence
    assert world.recover().rung == "soft"


def test_ddp_trains_and_its_buckets_are_seen(world_of: WorldMaker) -> None:
    world = world_of(2)
    code = (
        "torch.manual_seed(0)\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))\n"
        "model(torch.full((3, 4), rank + 1.0)).sum().backward()\n"
        "float(model.module.weight.grad[0, 0])"
    )
    assert texts(world, code) == ["4.5"] * 2
    calls = world.diagnose().evidence.ranks[0].calls
    assert any(call.op == "all_reduce" and call.site and call.site.line == 3 for call in calls), calls


# ---- variables
def test_tensors_before_and_after(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("x = torch.tensor([2, 3, 5][rank]).repeat(4)\ndist.all_reduce(x)")
    table = world.tensors("x")
    assert [sample.values for sample in table.samples] == [(10,) * 4] * 3
    assert [sample.before for sample in table.samples] == [(2,) * 4, (3,) * 4, (5,) * 4]
    assert table.identical


def test_large_tensors_are_sampled_in_the_rank(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("big = torch.arange(1_000_000.0)")
    sample = world.tensors("big").samples[0]
    assert sample.sampled
    assert len(sample.values) <= 64
    assert sample.maximum == 999_999
    assert sample.values[1] == sample.indices[1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64"])
def test_push_and_pull(world_of: WorldMaker, dtype: str) -> None:
    world = world_of(2)
    array = numpy.arange(6).reshape(2, 3).astype(dtype)
    world.push(a=array, note={"k": [1, None, "ü"]})
    pulled = world.pull("a")
    assert all(numpy.array_equal(pulled[rank], array) and pulled[rank].dtype == array.dtype for rank in (0, 1))
    assert world.pull("note", 1) == {1: {"k": [1, None, "ü"]}}


def test_unpicklable_and_large_values_become_a_summary(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("f = lambda: 0\nlots = list(range(100_000))\nhuge = torch.zeros(1000)")
    assert "lambda" in world.pull("f")[0]
    assert len(world.run_cell("lots").outcomes[0].shown.text) <= 20_000  # type: ignore[union-attr]
    with pytest.raises(UsageError, match=r"limit_bytes"):
        world.pull("huge", limit_bytes=100)
    assert world.pull("huge[:2].tolist()") == {0: [0.0, 0.0], 1: [0.0, 0.0]}


# ---- bad input: one line that says what to do, and nothing is lost
@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda w: w.run_cell("1", [7]), UsageError, "ranks 0-2"),
        (lambda w: w.run_cell("1", []), UsageError, "no rank"),
        (lambda w: w.run_cell("1", deadline_s=0), UsageError, "deadline"),
        (lambda w: w.run("all_reduc"), UsageError, "did you mean 'all_reduce'"),
        (lambda w: w.run("all_reduce", reduce_op="summ"), UsageError, "did you mean 'sum'"),
        (lambda w: w.inject("swaped-order", 1), UnknownName, "did you mean 'swapped-order'"),
        (lambda w: w.inject("slow", 1, delay=3), UsageError, "delay_s"),
        (lambda w: w.inject("slow", 9), UsageError, "ranks 0-2"),
        (lambda w: w.tensors("wieght"), UsageError, "did you mean 'weight'"),
        (lambda w: w.pull("wieght"), UsageError, "did you mean 'weight'"),
        (lambda w: w.push(f=lambda: 0), UsageError, "can't be sent"),
        (lambda w: w.set_mode("sage"), UsageError, "did you mean 'safe'"),
        (lambda w: start(2), WorldMismatch, "stop"),
        (lambda w: start(backend="nccl"), WorldMismatch, "gloo, not nccl"),
    ],
)
def test_bad_input(world_of: WorldMaker, call: Callable[[World], object], kind: type[Exception], words: str) -> None:
    world = world_of(3)
    world.run_cell("weight = torch.ones(2)")
    with pytest.raises(kind) as caught:
        call(world)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert texts(world, "weight.tolist()") == ["[1.0, 1.0]"] * 3


def test_a_syntax_error_is_an_outcome_with_its_line(world_of: WorldMaker) -> None:
    world = world_of(2)
    result = world.run_cell("x = 1\nif rank = 0: pass")
    assert {outcome.error.type for outcome in result.outcomes if outcome.error} == {"SyntaxError"}
    assert {outcome.error.site.line for outcome in result.outcomes if outcome.error and outcome.error.site} == {2}


def test_start_is_idempotent(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert start() is world
    assert start(3, "gloo") is world
    assert current() is world


def test_nccl_without_a_gpu_says_so(world_of: WorldMaker) -> None:
    world_of(2).stop()
    with pytest.raises(NotEnoughDevices, match="gloo"):
        start(2, "nccl")
    with pytest.raises(NoWorld, match=r"labkit.start"):
        current()


def test_a_stopped_world_says_so(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.stop()
    world.stop()
    for call in (lambda: world.run_cell("1"), world.recover, world.status, world.diagnose):
        with pytest.raises(UsageError, match=r"labkit.start"):
            call()


# ---- busy, dead, interrupted
def test_busy_and_dead_ranks_refuse_a_cell_in_one_line(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.try_fault("swapped-order", 1)
    with pytest.raises(RankBusy, match=r"world.recover"):
        world.run_cell("1")
    assert all(card.state == "waiting" for card in world.status().cards)
    world.recover()
    os.kill(world.status().cards[2].pid, signal.SIGKILL)
    time.sleep(0.3)
    assert world.status().cards[2].state == "dead"
    with pytest.raises(RankDead, match="rank 2"):
        world.run_cell("1")
    assert world.run_cell("rank", [0, 1]).ok
    assert world.recover().replaced == (2,)
    assert texts(world, "rank") == ["0", "1", "2"]


@pytest.mark.parametrize(
    "code",
    [
        "if rank != 1: dist.all_reduce(torch.ones(2))\nelse: import time; time.sleep(60)",
        "import time\ntime.sleep(60)",
        "while True: pass",
        "if rank == 0: dist.recv(torch.ones(1), 1)\nelse:\n    import time; time.sleep(60)",
    ],
)
def test_interrupt_frees_the_ranks_within_two_seconds(world_of: WorldMaker, code: str) -> None:
    world = world_of(3)
    world.run_cell("kept = rank")
    threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    result = world.run_cell(code, deadline_s=30)
    assert time.monotonic() - began < 2.8
    assert {outcome.status for outcome in result.outcomes} == {"interrupted"}
    assert result.recovery is not None
    assert result.recovery.rung == "soft"
    assert texts(world, "x = torch.ones(1); dist.all_reduce(x); (kept, x.item())") == [f"({rank}, 3.0)" for rank in range(3)]


def test_a_cell_that_only_takes_longer_says_so(world_of: WorldMaker) -> None:
    world = world_of(3)
    late = world.run_cell("import time\ntime.sleep(30)", deadline_s=1)
    assert late.diagnosis is None
    assert late.standing.startswith(f"ranks 0-2 were in Python at cell {late.cell}, line 2")
    assert world.broken == ""  # no collective was cut
    assert world.recover().rung == "soft"
    late = world.run_cell("x = torch.ones(9)\nwhile True: dist.all_reduce(x)", deadline_s=1)
    assert f"in all_reduce (cell {late.cell}, line 2)" in late.standing  # a rank may have been between two of them
    assert world.recover().rung == "soft"
    assert world.run_cell("dist.all_reduce(x)").standing == ""


def test_ranks_at_work_keep_their_variables_when_they_are_freed(world_of: WorldMaker) -> None:
    """Cut while messages flow, gloo lost every tenth to fourth such wait, and its rank with it."""
    world = world_of(3)
    rungs = []
    for _ in range(10):
        world.run_cell("x = torch.ones(9)\nwhile True: dist.all_reduce(x)", deadline_s=0.5)
        rungs.append(world.recover().rung)
    assert rungs.count("soft") >= 9, rungs  # a rank that has no core for long can look as if it were at rest


def test_stop_leaves_no_process_and_no_folder(world_of: WorldMaker) -> None:
    world = world_of(3)
    folder = world.core.cluster.folder.path
    pids = list(world.core.cluster.pids.values())
    world.try_fault("swapped-order", 1)
    world.stop()
    end = time.monotonic() + 3
    while time.monotonic() < end and any(state_of_pid(pid) != "dead" for pid in pids):
        time.sleep(0.02)
    assert [state_of_pid(pid) for pid in pids] == ["dead"] * len(pids)
    assert not folder.exists()
    assert HOLDER.world is None


def test_the_subprocess_launcher_does_the_same(world_of: WorldMaker) -> None:
    world = world_of(2, launcher="subprocess")
    assert world.status().launcher == "subprocess"
    result = world.try_fault("killed", 1)
    assert result.diagnosis is not None
    assert result.diagnosis.verdicts[0].code == "LK001"
    assert world.recover().replaced == (1,)
    assert texts(world, "rank") == ["0", "1"]
    world.stop()
