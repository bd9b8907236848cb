"""The world on scripted ranks: what each rank answers is given, and the cell ends, is judged and is mended as it should."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest

from labkit.driver import cells
from labkit.driver.cluster import Cluster
from labkit.driver.feed import Feed
from labkit.driver.scripted import Script, ScriptedFeed, ScriptedTransport
from labkit.driver.transport import Transport
from labkit.driver.world import World
from labkit.errors import DeadlineExceeded, RankBusy, RankDead, RankRaised, UsageError
from labkit.instruments import labnote
from labkit.testing import Act, call, dies, late, ok, raises
from labkit.wire import Diagnosis, Outcome, dumps, loads, to_plain

SUM = call("all_reduce", line=3)
OPEN = {"late", "stuck"}  # at the deadline, or ended before it


@pytest.fixture
def script() -> Script:
    return Script(4)


@pytest.fixture
def world(script: Script) -> Iterator[World]:
    with script.world() as made:
        yield made


# ---- a cell and its end
def test_a_cell_goes_to_the_ranks_and_shows_prints_and_values(script: Script, world: World) -> None:
    pieces: list[tuple[int, str, str]] = []
    script.on("cell", lambda rank, _: ok(shown=str(rank * 2), printed=f"hi {rank}\n"))
    result = world.run_cell("print('hi', rank); rank * 2", ranks=[1, 3], on_output=lambda *piece: pieces.append(piece))
    assert [(outcome.rank, outcome.shown.text) for outcome in result.outcomes] == [(1, "2"), (3, "6")]
    assert pieces == [(rank, "stdout", f"hi {rank}\n") for rank in (1, 3)]
    assert result.diagnosis is None
    assert [(rank, op, payload["cell"]) for rank, op, payload in script.asked] == [(1, "cell", 1), (3, "cell", 1)]
    assert loads(dumps(result)) == result


def test_a_cell_that_raises_names_its_line(script: Script, world: World) -> None:
    script.on("cell", {1: raises("ZeroDivisionError: division by zero", line=3)})
    result = world.run_cell("a = 1\nif rank == 1:\n    1 / 0")
    error = result.outcomes[1].error
    assert (error.type, error.message, str(error.site)) == ("ZeroDivisionError", "division by zero", "cell 1, line 3")
    assert [outcome.ok for outcome in result.outcomes] == [True, False, True, True]
    assert world.diagnose().healthy, "nobody waits for it"


def test_a_hang_ends_at_once_in_a_verdict(script: Script, world: World) -> None:
    started = time.perf_counter()
    script.on("cell", {rank: late(SUM) for rank in (0, 1, 3)})
    result = world.run_cell("x = torch.ones(1)\nif rank != 2:\n    dist.all_reduce(x)")
    verdict = result.diagnosis.verdict
    assert (verdict.code, verdict.culprits, verdict.waiting) == ("LK007", (2,), (0, 1, 3))
    assert "cell 1, line 3" in verdict.sentence
    assert [outcome.status for outcome in result.outcomes] == ["stuck", "stuck", "ok", "stuck"]
    with pytest.raises(RankBusy, match="ranks 0, 1 and 3"):
        world.run_cell("1")
    assert world.broken == "since cell 1"
    assert world.recover().rung == "soft"
    assert world.run_cell("1").ok
    assert time.perf_counter() - started < 1.0


def test_a_rank_that_raised_is_the_cause_of_the_others_wait(script: Script, world: World) -> None:
    script.on("cell", {0: late(SUM), 1: late(SUM), 2: late(SUM), 3: raises("ValueError: no data", line=2)})
    verdict = world.run_cell("x = torch.ones(1)\nif rank == 3: raise ValueError('no data')\ndist.all_reduce(x)").diagnosis.verdict
    assert (verdict.code, verdict.culprits) == ("LK003", (3,))


def test_a_slow_rank_is_waited_for_and_told(script: Script, world: World) -> None:
    notices: list[Diagnosis] = []
    waits = ok(calls=(call("all_reduce", state="issued"),), after_s=3.0)
    script.on("cell", {0: waits, 1: waits, 3: waits, 2: ok(calls=(), after_s=3.0, stack=((2, "<module>"),))})
    result = world.run_cell("if rank == 2:\n    work()\ndist.all_reduce(x)", on_notice=notices.append)
    assert result.ok
    assert {(each.verdict.code, each.verdict.culprits) for each in notices} == {("LK010", (2,))}


def test_the_deadline_holds_on_the_clock_of_the_script(script: Script, world: World) -> None:
    started = time.perf_counter()
    script.on("cell", {0: ok(after_s=60)})
    result = world.run_cell("time.sleep(60 if rank == 0 else 0)", deadline_s=30)
    assert result.outcomes[0].status == "late"
    assert [outcome.ok for outcome in result.outcomes] == [False, True, True, True]
    assert time.perf_counter() - started < 1.0
    assert world.recover().freed == (0,)


def test_new_groups_are_formed_when_the_old_ones_are_cut(script: Script, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that comes late would hit the connections of the next generation."""
    asked: list[Future[object]] = []
    formed: list[bool] = []
    control, form = ScriptedTransport.control, type(world.core.cluster).form

    def slow(self: ScriptedTransport, rank: int, op: str, payload: dict[str, object]) -> Future[object]:
        answer = control(self, rank, op, payload)
        if op != "release":
            return answer
        asked.append(Future())  # the cell has ended by now; the rank's other thread tells so later
        threading.Timer(0.1, asked[-1].set_result, [answer.result()]).start()
        return asked[-1]

    monkeypatch.setattr(ScriptedTransport, "control", slow)
    monkeypatch.setattr(
        type(world.core.cluster), "form", lambda *args: (formed.append(all(one.done() for one in asked)), form(*args))[1]
    )
    script.on("cell", {0: ok(after_s=60)})
    world.run_cell("while rank == 0: pass", deadline_s=30)
    assert world.recover().rung == "soft"
    assert (len(asked), formed) == (1, [True])


def test_an_op_that_does_not_end_is_late(script: Script, world: World) -> None:
    script.on("all_reduce", {0: late(SUM), 2: late(SUM), 3: late(SUM)})
    with pytest.raises(DeadlineExceeded, match="ranks 0, 2 and 3 did not finish all_reduce"):
        world.run("all_reduce", deadline_s=0.1)


def test_an_op_that_raises_comes_back_as_an_error(script: Script, world: World) -> None:
    script.on("all_reduce", {1: raises("RuntimeError: no such group")})
    with pytest.raises(RankRaised, match="rank 1"):
        world.run("all_reduce")


def test_a_dead_rank_is_told(script: Script, world: World) -> None:
    script.on(
        "cell", {3: dies(SUM), **{rank: raises("RuntimeError: Connection closed by peer", calls=(SUM,)) for rank in range(3)}}
    )
    result = world.run_cell("dist.all_reduce(x)")
    assert (result.diagnosis.verdict.code, result.outcomes[3].status) == ("LK001", "dead")
    with pytest.raises(RankDead, match="the process of rank 3 has exited"):
        world.run("ping")
    report = world.recover()
    assert (report.rung, report.replaced) == ("ranks", (3,))
    assert len(world.run("ping").values) == 4


def test_in_safe_mode_whoever_waits_is_told_why_and_raises() -> None:
    script = Script(3)
    with script.world(mode="safe") as world:
        script.on("cell", {0: late(SUM), 1: late(SUM)})
        result = world.run_cell("x = torch.ones(1)\nif rank != 2:\n    dist.all_reduce(x)")
        assert [outcome.status for outcome in result.outcomes] == ["error", "error", "ok"]
        assert {outcome.error.type for outcome in result.outcomes[:2]} == {"ContractError"}
        assert "rank 2 has finished cell 1 without all_reduce #1" in result.outcomes[0].error.message
        assert world.run_cell("1").ok, "nobody is stuck"


def test_a_fault_that_fires_is_counted_and_gets_its_verdict(script: Script, world: World) -> None:
    with world.inject("leaves-early", rank=2) as fault:
        assert fault.record.fired == 0
        script.on("cell", {2: Act(fires=1), **{rank: late(SUM) for rank in (0, 1, 3)}})
        world.run_cell("dist.all_reduce(x)")
        assert (fault.record.fired, fault.record.verdict) == (1, "LK007")
    assert not fault.active
    assert ("arm", {"fault": "leaves-early", "params": {"at": 1}}) in [(op, payload) for _, op, payload in script.asked]


def test_a_lab_can_be_worked_on_in_it(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABKIT_RECORD", raising=False)
    monkeypatch.setattr(labnote.DESK, "lab", None)
    lab = labnote.lab("01-every-rank-the-same")
    with script.world(listeners=[labnote.DESK]) as world:
        script.on("cell", {3: dies(fires=1)})
        world.try_fault("killed")
        world.recover()
        assert world.run_cell("x = torch.ones(1)").ok
        done = lab.done()
    assert to_plain(done)
    assert [fault.fault for fault in done.faults] == ["killed"]


# ---- interrupts
def test_a_second_interrupt_while_a_cell_is_stopped_waits_until_the_ranks_are_free(
    script: Script, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnose = world.core.diagnose

    def interrupted() -> Diagnosis:
        signal.raise_signal(signal.SIGINT)
        return diagnose()

    def first(*_: object) -> None:
        raise KeyboardInterrupt

    script.on("cell", late())
    with monkeypatch.context() as patch:
        patch.setattr(world.core, "diagnose", interrupted)
        patch.setattr(cells, "run", first)
        with pytest.raises(KeyboardInterrupt):
            world.run_cell("while True: ...")
    assert world.run_cell("x = 1").outcomes[0].status == "ok"


def test_an_interrupt_while_requests_go_out_waits_until_all_have_one(
    script: Script, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real signal after the first rank has its request: the others get theirs, and then the ranks are freed."""
    transport = script.transport
    request = transport.request

    def interrupted(rank: int, *args: object, **options: object) -> object:
        pending = request(rank, *args, **options)  # type: ignore[arg-type]
        if rank == 0:
            signal.raise_signal(signal.SIGINT)
        return pending

    for work in (lambda: world.run_cell("x = torch.ones(1)"), lambda: world.push(x=3), lambda: world.run("ping")):
        script.asked.clear()
        monkeypatch.setattr(transport, "request", interrupted)
        with suppress(KeyboardInterrupt):
            work()
        monkeypatch.setattr(transport, "request", request)
        assert [rank for rank, _, _ in script.asked] == [0, 1, 2, 3]
        assert world.run_cell("1").ok
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---- the script itself
def test_acts_are_used_in_their_order_and_then_the_standing_one(script: Script, world: World) -> None:
    script.on("ping", ok("always"), always=True)
    script.on("ping", ok("first"))
    script.on("ping", {1: ok("second")})
    assert world.run("ping").values == ("first",) * 4
    assert world.run("ping").values == (None, "second", None, None)
    assert world.run("ping").values == ("always",) * 4


@pytest.mark.parametrize(("real", "scripted"), [(Cluster, Script), (Transport, ScriptedTransport), (Feed, ScriptedFeed)])
def test_it_has_what_the_real_one_has(script: Script, world: World, real: type, scripted: type) -> None:
    stands_in = {Script: script, ScriptedTransport: script.transport, ScriptedFeed: script.feed}[scripted]
    for name in (name for name in vars(real) if not name.startswith("_")):
        assert hasattr(stands_in, name), name
        method = getattr(real, name)
        if inspect.isfunction(method) and inspect.isfunction(getattr(scripted, name, None)):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(getattr(scripted, name)).parameters), name


SCRIPT = """
import sys
from labkit.testing import Script, late, call, replay
from labkit.views import to_text, to_html
script = Script(4)
with script.world() as world:
    script.on("cell", {rank: late(call("all_reduce")) for rank in (0, 1, 2)})
    drawn = [world.run_cell("..."), world.status(), world.diagnose(), world.recover(), world.status(), world.run("ping")]
    drawn += [world.inject("slow", 1).record, world.timeline()]
drawn += [value for file in sys.argv[1:] for value in replay(file)]
assert all(to_text(record) and to_html(record) for record in drawn)
print(*[name for name in ("torch", "ipyparallel", "IPython", "ipywidgets", "plotly") if name in sys.modules])
"""


def test_every_view_draws_without_anything_heavy(root: object) -> None:
    files = sorted(map(str, (root / "tests" / "data" / "evidence").glob("*.jsonl")))  # type: ignore[operator]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_an_error_with_a_verdicts_sentence_ends_it_once(script: Script, world: World) -> None:
    script.on("cell", {1: dies(), 0: late(SUM), 2: late(SUM), 3: late(SUM)})
    diagnosis = world.run_cell("...").diagnosis
    with pytest.raises(RankDead) as caught:
        world.core._raise("time", (Outcome(1, "dead"),), diagnosis)
    assert ".;" not in str(caught.value)


def test_a_cell_that_is_no_text_is_refused_in_one_line(world: World) -> None:
    for code in (None, 3, ["print(1)"]):
        with pytest.raises(UsageError, match=r"a cell is text, not .*; for example world.run_cell"):
            world.run_cell(code)  # type: ignore[arg-type]
