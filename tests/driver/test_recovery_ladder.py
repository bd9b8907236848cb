"""The ladder as the driver climbs it: on scripted ranks, rung by rung, and what the report says of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from labkit.driver.transport import ControlError
from labkit.driver.world import World
from labkit.errors import RecoveryError
from labkit.testing import Act, Script, call, dies, late, ok
from labkit.views import to_text

BARRIER = call("barrier")


@pytest.fixture
def script() -> Script:
    return Script(3)


@pytest.fixture
def world(script: Script) -> Iterator[World]:
    with script.world() as made:
        script.on("cell", ok(names=("x",)))
        made.run_cell("x = torch.ones(1)")
        yield made


def hang(script: Script, world: World) -> None:
    """Ranks 1 and 2 wait in a barrier to which rank 0 does not come."""
    script.on("cell", {1: late(BARRIER), 2: late(BARRIER)})
    assert not world.run_cell("dist.barrier() if rank else None").ok


def sound(world: World) -> bool:
    return world.run_cell("1").ok and world.diagnose().healthy and not world.broken


def test_a_healthy_world_is_left_alone(world: World) -> None:
    report = world.recover()
    assert (report.rung, report.steps, report.generation) == ("none", (), 1)
    assert set(report.kept) == {"0", "1", "2"}
    assert sound(world)


def test_soft_keeps_every_process_and_variable(script: Script, world: World) -> None:
    pids = [card.pid for card in world.status().cards]
    hang(script, world)
    assert [card.doing for card in world.status().cards] == ["idle", "in barrier #1", "in barrier #1"]
    report = world.recover()
    assert (report.rung, report.freed, report.replaced, report.generation) == ("soft", (1, 2), (), 2)
    assert report.kept == {"0": ("x",), "1": ("x",), "2": ("x",)}
    assert report.check == "all-reduce of rank + 1 gives 6 on all 3 ranks"
    assert [card.pid for card in world.status().cards] == pids
    assert sound(world)


def test_only_the_dead_are_replaced(script: Script, world: World) -> None:
    pids = [card.pid for card in world.status().cards]
    script.on("cell", {1: dies(BARRIER)})
    world.run_cell("dist.barrier()")
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (1,))
    assert (report.kept, report.lost) == ({"0": ("x",), "2": ("x",)}, {"1": ("x",)})
    assert "replaced rank 1" in to_text(report)
    assert [card.pid == old for card, old in zip(world.status().cards, pids, strict=True)] == [True, False, True]
    assert sound(world)


def test_a_stopped_rank_goes_on_and_keeps_its_variables(script: Script, world: World) -> None:
    script.on("cell", {0: late(BARRIER), 1: late(BARRIER), 2: Act("late", process="stopped")})
    assert world.run_cell("dist.barrier()", deadline_s=2).diagnosis.verdict.culprits == (2,)
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ())
    assert report.steps[0] == "let rank 2 go on (SIGCONT)"
    assert sound(world)


def test_a_rank_that_holds_the_lock_is_replaced(script: Script, world: World) -> None:
    script.on("cell", {0: late(answers=False), 1: late(BARRIER), 2: late(BARRIER)})
    assert world.run_cell("dist.barrier()", deadline_s=2).diagnosis.verdict.culprits == (0,)
    report = world.recover()
    assert (report.rung, report.replaced, report.freed) == ("ranks", (0,), (1, 2))
    assert sound(world)


def test_a_rank_that_catches_its_interrupt_is_replaced(script: Script, world: World) -> None:
    script.on("cell", {1: late(frees=False)})
    world.run_cell("...", deadline_s=2)
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (1,))
    assert sound(world)


@pytest.mark.parametrize(
    ("failures", "rung", "restarts"),
    [({"form": 1}, "world", 0), ({"form": 2}, "cluster", 1), ({"start_ranks": 1, "form": 1}, "cluster", 1)],
)
def test_a_failure_climbs(script: Script, world: World, failures: dict[str, int], rung: str, restarts: int) -> None:
    hang(script, world)
    for what, times in failures.items():
        script.fail(what, times)
    report = world.recover()
    assert (report.rung, script.restarts, report.replaced) == (rung, restarts, (0, 1, 2))
    assert [step for step in report.steps if step.startswith("that failed: ")]
    assert report.kept == {}
    assert sound(world)


def test_nothing_helps(script: Script, world: World) -> None:
    hang(script, world)
    script.fail("form", 99)
    with pytest.raises(RecoveryError, match=r"could not be brought back: form was told to fail; world.stop"):
        world.recover()
    script.fail("form", 0)
    assert world.recover(force=True).rung in ("soft", "world")
    assert sound(world)


def test_a_lost_controller_is_the_last_rung_at_once(script: Script, world: World) -> None:
    script.lost = True
    assert "the controller has exited" in world.status().note
    assert world.recover().rung == "cluster"
    assert sound(world)


def test_a_lost_store_is_told_and_recovery_forms_the_groups_at_a_new_one(script: Script, world: World) -> None:
    script.store_lost = True
    assert "the store has exited" in world.status().note
    report = world.recover()
    assert (report.rung, report.lost, script.store_lost) == ("soft", {}, False)
    assert world.status().note == ""


def test_interrupt_frees_ranks_that_are_not_stuck(script: Script, world: World) -> None:
    script.on("cell", late())
    world.run_cell("import time; time.sleep(500)", deadline_s=1)
    assert world.interrupt().freed == (0, 1, 2)
    assert sound(world)


def test_faults_are_taken_out_by_recovery(script: Script, world: World) -> None:
    world.inject("swapped-order", 1)
    hang(script, world)
    assert world.injections[0].active
    world.recover()
    assert world.injections == []


def test_ranks_at_work_come_to_rest_before_their_waits_are_cut(
    script: Script, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, asked = script.transport, []
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

    hang(script, world)
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
    hang(script, world)
    assert world.recover().rung == "soft"
    assert [op for op, _ in asked] == ["release", "release"]  # a verdict has said already that nothing moves


def test_a_rank_that_answers_with_an_error_keeps_its_variables(
    script: Script, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = script.transport
    control = transport.control

    def faulty(rank: int, op: str, payload: dict[str, object]) -> Future[object]:
        answer = control(rank, op, payload)
        if rank == 1 and op in ("state", "release"):
            answer = Future()
            answer.set_exception(ControlError(f"rank 1: RuntimeError: {op} failed", hint="none"))
        return answer

    hang(script, world)
    monkeypatch.setattr(transport, "control", faulty)
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ())
    assert report.kept == {"0": ("x",), "1": ("x",), "2": ("x",)}
    assert "a wait could not be cut: rank 1: RuntimeError: release failed; none" in report.steps


def test_a_controller_that_was_stopped_goes_on_and_nothing_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = [True]
    monkeypatch.setattr(world.core.cluster, "resume_controller", lambda: bool(stopped) and stopped.pop())
    report = world.recover()
    assert (report.rung, report.replaced, report.steps[0]) == ("soft", (), "let the controller go on (SIGCONT)")
    assert report.kept["0"] == ("x",)
    assert sound(world)


def test_a_new_rank_is_given_what_the_one_before_it_knew(script: Script, world: World) -> None:
    script.on("cell", ok(names=("x", "net", "f")))
    world.run_cell("import torch.nn as nn\nx = 1")
    script.on("cell", {1: dies()})
    world.run_cell("dist.barrier()")
    script.on("restore", {1: ok({"names": ["x", "_y"], "made": ["net"], "lost": {"f": "an open file"}, "remarks": {}})})
    report = world.recover()
    assert (report.replaced, report.lost) == ((1,), {"1": ("f",)})
    (given,) = report.restored
    assert (given.names, given.made, given.lost) == (("x",), ("net",), {"f": "an open file"})
    asked = [payload for rank, op, payload in script.asked if op == "restore" and rank == 1]
    assert asked[0]["cells"] == [
        [1, "x = torch.ones(1)", True], [2, "import torch.nn as nn\nx = 1", True], [3, "dist.barrier()", False],
    ]  # fmt: skip


def test_a_rank_that_dies_while_it_is_restored_is_replaced_once_more(script: Script, world: World) -> None:
    script.on("cell", {1: dies()})
    world.run_cell("dist.barrier()")
    script.on("restore", {1: dies()})
    report = world.recover()
    assert (report.replaced, report.restored[0].why) == ((1,), "the new process got stuck when it read them")
    assert sound(world)
