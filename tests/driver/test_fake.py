"""The fake world: every fault of the catalogue is seen, named and mended as on real ranks, in milliseconds."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import time

import pytest

from labkit.driver.cluster import Cluster
from labkit.driver.fake import FakeCluster, turns
from labkit.driver.fake.cluster import FakeFeed, FakeTransport
from labkit.driver.fake.faults import ACTED, AS_THEY_ARE
from labkit.driver.feed import Feed
from labkit.driver.transport import Transport
from labkit.driver.world import World
from labkit.errors import DeadlineExceeded, RankBusy, RankDead, RankRaised, UnknownName, UsageError
from labkit.faults import FAULTS
from labkit.instruments import labnote
from labkit.testing import fake_world
from labkit.wire import dumps, loads, to_plain

ALL = list(FAULTS)
GATHER = """import torch.distributed as dd
x = torch.zeros(1)
g = [torch.zeros(1) for _ in range(4)] if rank == 0 else None
dd.gather(torch.ones(1) * rank, g, dst=0)
dd.scatter(x, g, src=0)
x.item()"""
OPEN = {"late", "stuck"}  # at the deadline, or given up before it
STATUSES = {"hang": OPEN, "abort": {"dead"}, "silent": {"ok"}, "slow": {"ok"}, "error": {"error"}}


@pytest.fixture
def world():
    with fake_world(4) as made:
        yield made


def code(result) -> str:
    return result.diagnosis.verdict.code if result.diagnosis else ""


# ---- faults
def test_every_fault_can_be_acted_and_none_of_the_acted_ones_runs_for_real() -> None:
    assert set(ACTED) | AS_THEY_ARE == set(ALL)
    assert not set(ACTED) & AS_THEY_ARE


# in safe mode the world waits a real second for ranks that have been told off and do not hear it
DEAF = [pytest.param(name, 3, "safe", marks=pytest.mark.slow) for name in ("busy-python", "holds-gil", "stopped")]
MODES = [(name, ranks, "raw") for name in ALL for ranks in (2, 3, 4)] + DEAF
MODES += [(name, ranks, "safe") for name in ALL if name not in ("busy-python", "holds-gil", "stopped") for ranks in (2, 3, 4)]


@pytest.mark.parametrize(("name", "ranks", "mode"), MODES)
def test_a_fault_is_named_as_its_expectation_says_and_the_world_mends(name: str, ranks: int, mode: str) -> None:
    with fake_world(ranks, mode=mode) as world:
        expected = FAULTS[name].expect[mode]
        with world.inject(name, rank=ranks - 1) as fault:
            result = world.run_cell(FAULTS[name].demo)
            record = fault.record
        assert record.fired == 1
        assert record.verdict == code(result)
        assert code(result) in expected.codes
        assert STATUSES[expected.ending] & {outcome.status for outcome in result.outcomes}
        report = world.recover()
        assert set(report.replaced) <= {ranks - 1} or FAULTS[name].replaces_rank
        assert world.run("all_reduce").values == ((ranks * (ranks + 1) / 2,) * 4,) * ranks
        healthy = world.run_cell(FAULTS[name].demo)
        assert healthy.ok
        assert healthy.diagnosis is None


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_culprit_is_the_rank_with_the_fault(name: str, rank: int) -> None:
    with fake_world(4) as world:
        assert world.try_fault(name, rank).diagnosis.verdict.culprits == (rank,)


def test_the_whole_catalogue_takes_milliseconds() -> None:
    started = time.perf_counter()
    for name in ALL:
        with fake_world(4) as world:
            world.try_fault(name)
    assert time.perf_counter() - started < 2.0


def test_it_is_the_same_every_time() -> None:
    def run() -> list[object]:
        with fake_world(4) as world:
            result = world.try_fault("skipped-collective")
            return [result.outcomes, result.diagnosis.verdict.sentence, [len(v.calls) for v in result.diagnosis.evidence.ranks]]

    first = run()
    assert all(run() == first for _ in range(3))


# ---- cells
def test_a_cell_runs_on_all_ranks_and_shows_prints_and_keeps_variables(world) -> None:
    pieces: list[tuple[int, str, str]] = []
    result = world.run_cell("print('hi', rank)\ny = rank * 2\ny", on_output=lambda *piece: pieces.append(piece))
    assert [outcome.shown.text for outcome in result.outcomes] == ["0", "2", "4", "6"]
    assert pieces == [(rank, "stdout", f"hi {rank}\n") for rank in range(4)]
    assert world.pull("y") == {0: 0, 1: 2, 2: 4, 3: 6}


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("x = torch.full((2,), rank + 1.0); dist.all_reduce(x); x.tolist()", ["[10.0, 10.0]"] * 4),
        ("x = torch.tensor([rank]); dist.all_reduce(x, op=dist.ReduceOp.MAX); x.item()", ["3"] * 4),
        ("x = torch.full((1,), 1.0 + rank); dist.all_reduce(x, op=dist.ReduceOp.AVG); x.item()", ["2.5"] * 4),
        ("x = torch.tensor([rank]); dist.broadcast(x, src=2); x.item()", ["2"] * 4),
        ("x = torch.tensor([rank]); dist.reduce(x, dst=1); x.item()", ["0", "6", "2", "3"]),
        ("o = torch.zeros(4); dist.all_gather_into_tensor(o, torch.ones(1) * rank); o.tolist()", ["[0.0, 1.0, 2.0, 3.0]"] * 4),
        ("o = torch.zeros(1); dist.reduce_scatter_tensor(o, torch.arange(4.0)); o.item()", ["0.0", "4.0", "8.0", "12.0"]),
        ("x = torch.ones(1); w = dist.all_reduce(x, async_op=True); w.wait(); x.item()", ["4.0"] * 4),
        ("g = dist.new_group([0, 2])\nx = torch.ones(1)\ndist.all_reduce(x, group=g)\nx.item()", ["2.0", "1.0", "2.0", "1.0"]),
        ("x = torch.tensor([float(rank)])\n(dist.send(x, 1) if rank == 0 else dist.recv(x, 0) if rank == 1 else None)\nx.item()",
         ["0.0", "0.0", "2.0", "3.0"]),
        (GATHER, ["0.0", "1.0", "2.0", "3.0"]),
    ],
)  # fmt: skip
def test_collectives_compute(world, cell: str, values: list[str]) -> None:
    result = world.run_cell(cell)
    assert [outcome.error for outcome in result.outcomes] == [None] * 4
    assert [outcome.shown.text for outcome in result.outcomes] == values
    assert result.diagnosis is None


def test_a_cell_that_raises_names_its_line(world) -> None:
    result = world.run_cell("a = 1\nif rank == 1:\n    1 / 0")
    error = result.outcomes[1].error
    assert (error.type, str(error.site)) == ("ZeroDivisionError", "cell 1, line 3")
    assert [outcome.ok for outcome in result.outcomes] == [True, False, True, True]


def test_a_real_hang_from_a_cell_ends_at_once_in_a_verdict(world) -> None:
    started = time.perf_counter()
    result = world.run_cell("x = torch.ones(1)\nif rank != 2:\n    dist.all_reduce(x)")
    assert time.perf_counter() - started < 1.0
    assert (code(result), result.diagnosis.verdict.culprits) == ("LK007", (2,))
    with pytest.raises(RankBusy, match="ranks 0, 1 and 3"):
        world.run_cell("1")
    assert world.recover().rung == "soft"
    assert world.run_cell("x.item()").ok, "variables survive a soft recovery"


def test_seconds_pass_at_once(world) -> None:
    started = time.perf_counter()
    result = world.run_cell("import time\nbegan = time.monotonic()\ntime.sleep(8)\nround(time.monotonic() - began)")
    assert [outcome.shown.text for outcome in result.outcomes] == ["8"] * 4
    assert time.perf_counter() - started < 2.0


def test_the_deadline_holds_on_the_clock_of_the_world(world) -> None:
    result = world.run_cell("import time\ntime.sleep(60 if rank == 0 else 0)", deadline_s=3)
    assert result.outcomes[0].status in OPEN
    assert [outcome.ok for outcome in result.outcomes] == [False, True, True, True]
    assert world.recover().freed == (0,)


def test_an_op_that_does_not_end_is_late(world) -> None:
    world.run_cell("x = torch.ones(1)")
    with world.inject("skipped-collective", rank=1), pytest.raises(DeadlineExceeded, match="ranks 0, 2 and 3"):
        world.run("all_reduce", deadline_s=2)


def test_a_dead_rank_is_told(world) -> None:
    world.try_fault("killed")
    with pytest.raises(RankDead, match="rank 3 is gone"):
        world.run("ping")
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (3,))
    assert len(world.run("ping").values) == 4


def test_what_the_fake_does_not_have_says_so(world) -> None:
    cells = ["torch.fft", "import torch.nn", "dist.all_to_all", "dist.monitored_barrier"]
    for cell in cells:
        error = world.run_cell(cell).outcomes[0].error
        assert error.type == "UsageError"
        assert "real world" in error.message
    with pytest.raises(UnknownName, match="variable 'nothing'"):
        world.tensors("nothing")
    with pytest.raises(UsageError, match="no rank op 'pin'; did you mean 'ping'"):
        world.run("pin")
    world.run_cell("f = print")
    with pytest.raises(UsageError, match="not a tensor"):
        world.tensors("f")


def test_variables_travel(world) -> None:
    import numpy

    world.push(a=numpy.arange(6.0).reshape(2, 3), b=[1, "two"])
    assert world.run_cell("(a.sum().item(), b)").outcomes[3].shown.text == "(15.0, [1, 'two'])"
    back = world.pull("a")[2]
    assert back.dtype == numpy.float64
    assert back.tolist() == [[0, 1, 2], [3, 4, 5]]
    table = world.tensors("a")
    assert table.identical
    assert table.samples[0].shape == (2, 3)


def test_tensors_before_and_after(world) -> None:
    world.run_cell("x = torch.full((2,), float(rank))\ndist.all_reduce(x)")
    table = world.tensors("x")
    assert [sample.before for sample in table.samples] == [(float(rank),) * 2 for rank in range(4)]
    assert {sample.values for sample in table.samples} == {(6.0, 6.0)}
    assert table.samples[0].op == "all_reduce"


def test_its_records_travel_like_real_ones(world) -> None:
    result = world.try_fault("busy-python", deadline_s=2)
    assert loads(dumps(result)) == result


def test_an_unknown_fault_is_not_run_for_real(world, monkeypatch) -> None:
    monkeypatch.delitem(ACTED, "killed")
    with pytest.raises(UsageError, match="can't act out killed"):
        world.inject("killed", rank=0)


def test_a_loop_without_calls_is_ended(world, monkeypatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.2)
    before = threading.active_count()
    with pytest.raises(DeadlineExceeded, match=r"rank 0 of the fake world has run for 0.2 s without a call"):
        world.run_cell("while rank == 0: pass")
    end_s = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end_s:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    for name in ("killed", "busy-python", "stopped", "leaves-early"):
        with fake_world(3) as world:
            world.try_fault(name)
    assert threading.active_count() == before


def test_a_cluster_can_be_told_to_fail() -> None:
    cluster = FakeCluster(2)
    cluster.start("raw")
    world = World(cluster, mode="raw", deadline_s=5)
    cluster.fail("form", 2)
    world.run_cell("if rank == 0:\n    dist.barrier()")
    report = world.recover()
    assert (report.rung, cluster.restarts) == ("cluster", 1)
    world.stop()


def test_a_lab_can_be_worked_on_in_it(world, monkeypatch) -> None:
    monkeypatch.delenv("LABKIT_RECORD", raising=False)
    monkeypatch.setattr(labnote.DESK, "lab", None)
    lab = labnote.lab("01-every-rank-the-same")
    world.try_fault("killed")
    world.recover()
    assert world.run_cell("x = torch.ones(1)").ok
    done = lab.done()
    assert to_plain(done)
    assert [fault.fault for fault in done.faults] == ["killed"]


@pytest.mark.parametrize(("real", "fake"), [(Cluster, FakeCluster), (Transport, FakeTransport), (Feed, FakeFeed)])
def test_it_has_what_the_real_one_has(real: type, fake: type) -> None:
    made = FakeCluster(1)
    stands_in = {FakeCluster: made, FakeTransport: made.transport, FakeFeed: made.feed}[fake]
    for name in (name for name in vars(real) if not name.startswith("_")):
        assert hasattr(stands_in, name), name
        method = getattr(real, name)
        if name != "start" and inspect.isfunction(method) and inspect.isfunction(getattr(fake, name, None)):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(getattr(fake, name)).parameters), name


def test_an_op_that_raises_comes_back_as_an_error(world) -> None:
    with pytest.raises(RankRaised, match="rank 1"), world.inject("rank-raises", rank=1):
        world.run("all_reduce", deadline_s=1, ranks=1)


# ---- without what is heavy
SCRIPT = """
import sys
from labkit.testing import fake_world
from labkit.views import to_text, to_html
with fake_world(4) as world:
    result = world.try_fault("swapped-order")
    drawn = [result, world.status(), world.diagnose(), world.recover(), world.status()]
    world.run_cell("x = torch.full((3,), 1.0 * rank); dist.all_reduce(x)")
    drawn += [world.tensors("x"), world.run("ping"), world.inject("slow", 1).record]
    assert all(to_text(record) and to_html(record) for record in drawn)
    assert "rank 3 called broadcast" in to_text(drawn[0])
print(*[name for name in ("torch", "ipyparallel", "IPython", "ipywidgets", "plotly") if name in sys.modules])
"""


def loaded() -> set[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_every_view_draws_without_torch() -> None:
    assert "torch" not in loaded()


def test_every_view_draws_without_anything_heavy() -> None:
    assert loaded() == set()
