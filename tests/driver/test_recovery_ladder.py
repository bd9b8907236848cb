"""The ladder as the driver climbs it: on fake ranks, rung by rung, and what the report says of it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from labkit.driver.transport import ControlError
from labkit.driver.world import World
from labkit.errors import RecoveryError
from labkit.testing import fake_world
from labkit.views import to_text


@pytest.fixture
def world():
    with fake_world(3) as made:
        made.run_cell("x = torch.ones(1)")
        yield made


def hang(world: World) -> None:
    world.run_cell("dist.barrier() if rank else None")


def sound(world: World) -> bool:
    return world.run("all_reduce").values == ((6.0,) * 4,) * 3 and world.run_cell("dist.barrier()").ok


def test_a_healthy_world_is_left_alone(world: World) -> None:
    report = world.recover()
    assert (report.rung, report.steps, report.generation) == ("none", (), 1)
    assert set(report.kept) == {"0", "1", "2"}
    assert sound(world)


def test_soft_keeps_every_process_and_variable(world: World) -> None:
    pids = [card.pid for card in world.status().cards]
    hang(world)
    report = world.recover()
    assert (report.rung, report.freed, report.replaced, report.generation) == ("soft", (1, 2), (), 2)
    assert report.kept == {"0": ("x",), "1": ("x",), "2": ("x",)}
    assert report.check == "all-reduce of rank + 1 gives 6 on all 3 ranks"
    assert [card.pid for card in world.status().cards] == pids
    assert sound(world)
    assert world.pull("x")[1].tolist() == [1.0]


def test_only_the_dead_are_replaced(world: World) -> None:
    world.try_fault("killed", 1)
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (1,))
    assert (report.kept, report.lost) == ({"0": ("x", "loss"), "2": ("x", "loss")}, {"1": ("x",)})
    assert "replaced rank 1" in to_text(report)
    assert sound(world)


def test_a_stopped_rank_goes_on_and_keeps_its_variables(world: World) -> None:
    world.try_fault("stopped", 2)
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ())
    assert report.steps[0] == "let rank 2 go on (SIGCONT)"
    assert sound(world)


def test_a_rank_that_holds_the_lock_is_replaced(world: World) -> None:
    world.try_fault("holds-gil", 0, deadline_s=2)
    report = world.recover()
    assert (report.rung, report.replaced, report.freed) == ("ranks", (0,), (1, 2))
    assert sound(world)


def test_a_rank_that_catches_its_interrupt_is_replaced(world: World) -> None:
    cell = "import time\nwhile rank == 1:\n    try:\n        time.sleep(99)\n    except BaseException:\n        pass"
    world.run_cell(cell, deadline_s=2)
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (1,))
    assert sound(world)


@pytest.mark.parametrize(
    ("failures", "rung", "restarts"),
    [({"form": 1}, "world", 0), ({"form": 2}, "cluster", 1), ({"start_ranks": 1, "form": 1}, "cluster", 1)],
)
def test_a_failure_climbs(world: World, failures: dict[str, int], rung: str, restarts: int) -> None:
    hang(world)
    for what, times in failures.items():
        world.core.cluster.fail(what, times)
    report = world.recover()
    assert (report.rung, world.core.cluster.restarts, report.replaced) == (rung, restarts, (0, 1, 2))
    assert [step for step in report.steps if step.startswith("that failed: ")]
    assert report.kept == {}
    assert sound(world)


def test_nothing_helps(world: World) -> None:
    hang(world)
    world.core.cluster.fail("form", 99)
    with pytest.raises(RecoveryError, match=r"could not be brought back: form was told to fail; world.stop"):
        world.recover()
    world.core.cluster.fail("form", 0)
    assert world.recover(force=True).rung in ("soft", "world")
    assert sound(world)


def test_a_lost_controller_is_the_last_rung_at_once(world: World) -> None:
    world.core.cluster.lose()
    assert world.recover().rung == "cluster"
    assert sound(world)


def test_interrupt_frees_ranks_that_are_not_stuck(world: World) -> None:
    world.run_cell("import time; time.sleep(500)", deadline_s=1)
    assert world.interrupt().freed == (0, 1, 2)
    assert sound(world)


def test_faults_are_taken_out_by_recovery(world: World) -> None:
    world.inject("swapped-order", 1)
    hang(world)
    world.recover()
    assert world.injections == []
    assert world.run_cell("x = torch.ones(1)\ndist.all_reduce(x)\ndist.broadcast(x, src=0)").ok


def test_ranks_at_work_come_to_rest_before_their_waits_are_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, asked = world.core.cluster.transport, []
    control = transport.control
    looks = [False, False, True, False, True, True, True]  # ranks 1 and 2 in turn, then both of them three times

    def scripted(rank: int, op: str, payload: dict[str, object]) -> Future[object]:
        answer = control(rank, op, payload)
        if op in ("process_idle", "interrupt_main", "release"):
            asked.append((op, rank))
        if op in ("process_idle", "interrupt_main"):
            answer = Future()
            answer.set_result(op == "interrupt_main" or not looks or looks.pop(0))
        return answer

    hang(world)
    for pending in world.core.pending.values():
        pending.asked_s -= 60  # what was asked a moment ago may be on its way still
    monkeypatch.setattr(transport, "control", scripted)
    assert world.interrupt().rung == "soft"
    ops = [op for op, _ in asked]
    assert [each for each in asked if each[0] == "interrupt_main"] == [
        ("interrupt_main", 1),
        ("interrupt_main", 2),
    ]  # each of them once
    assert ops[-2:] == ["release", "release"]
    assert ops.index("release") == len(ops) - 2
    assert ops[:4] == ["process_idle", "process_idle", "interrupt_main", "interrupt_main"]
    assert ops[4:-2] == ["process_idle"] * 8  # one look at which rank 2 still moves, and three that are calm

    asked.clear()
    hang(world)
    assert world.recover().rung == "soft"
    assert [op for op, _ in asked] == ["release", "release"]  # a verdict has said already that nothing moves


def test_a_rank_that_answers_with_an_error_keeps_its_variables(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = world.core.cluster.transport
    control = transport.control

    def faulty(rank: int, op: str, payload: dict[str, object]) -> Future[object]:
        answer = control(rank, op, payload)
        if rank == 1 and op in ("state", "release"):
            answer = Future()
            answer.set_exception(ControlError(f"rank 1: RuntimeError: {op} failed", hint="none"))
        return answer

    hang(world)
    monkeypatch.setattr(transport, "control", faulty)
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ())
    assert report.kept == {"0": ("x",), "1": ("x",), "2": ("x",)}
    assert "a wait could not be cut: rank 1: RuntimeError: release failed; none" in report.steps
