"""The magics in a real IPython shell, with a world that is made of paper: no process is started."""

from __future__ import annotations

import atexit
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from labkit import notebook
from labkit.errors import DeadlineExceeded, NoWorld, RankRaised, UsageError
from labkit.notebook import Arguments, parse_line
from labkit.places import next_cell
from labkit.wire import (
    CallSite,
    CellResult,
    CodeError,
    Diagnosis,
    Evidence,
    Injection,
    Outcome,
    RankCard,
    Shown,
    Stream,
    Verdict,
    WorldStatus,
)

VERDICT = Verdict(
    "LK003", "skipped", "A call is missing", "rank 2 never called all_reduce #1.", next_step="call it on rank 2", ending="hang"
)


@dataclass
class PaperWorld:
    """Answers what it was told to; remembers what it was asked."""

    world_size: int = 4
    answer: Callable[[PaperWorld], CellResult] = lambda world: CellResult(1, tuple(Outcome(rank) for rank in range(4)))
    injections: list[Injection] = field(default_factory=list)
    last: CellResult | None = None
    cell: int = 0
    asked: list[tuple[str, Any, float | None]] = field(default_factory=list)
    on_output: Callable[[int, str, str], None] = lambda rank, name, text: None
    core: Any = field(default_factory=lambda: types.SimpleNamespace(stopped=True))  # it has no calls to look at

    def next_cell(self) -> int:
        return next_cell(self.cell, notebook.prompt_number())

    def run_cell(
        self,
        code: str,
        ranks: Any = None,
        *,
        deadline_s: float | None = None,
        on_output: Any = None,
        on_notice: Any = None,
        cell: int = 0,
    ) -> CellResult:
        self.cell = cell
        self.asked.append((code, ranks, deadline_s))
        self.on_output, self.on_notice = on_output, on_notice
        self.last = self.answer(self)
        return self.last

    def status(self) -> WorldStatus:
        return WorldStatus(4, "gloo", "raw", 1, "fork", (RankCard(0, 7, "cpu", "gloo", "idle"),))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> PaperWorld:
    made = PaperWorld()
    monkeypatch.setattr(notebook, "current", lambda: made)
    return made


NO_HISTORY = Config({"HistoryManager": {"enabled": False}})  # its threads end one by one at exit


@pytest.fixture
def shell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("LABKIT_LIVE", raising=False)
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=NO_HISTORY)
    notebook.load_ipython_extension(made)
    yield made
    made.history_manager.end_session()
    atexit.unregister(made.atexit_operations)  # it collects garbage: half a second for each shell at the end of a long run
    InteractiveShell.clear_instance()


@dataclass
class Run:
    """What a notebook cell left: the outputs' texts, what was printed, and the exception."""

    shown: list[str]
    printed: str
    error: BaseException | None
    outputs: list[Any]


def run(shell: InteractiveShell, cell: str) -> Run:
    with capture_output() as captured:
        done = shell.run_cell(cell)
    outputs = list(captured.outputs)
    printed = captured.stdout + captured.stderr
    return Run([o.data.get("text/plain", "") for o in outputs], printed, done.error_in_exec or done.error_before_exec, outputs)


def said(*texts: str) -> Callable[[PaperWorld], CellResult]:
    outcomes = tuple(Outcome(rank, output=(Stream("stdout", text),)) for rank, text in enumerate(texts))
    return lambda world: CellResult(1, outcomes)


def ended(*statuses: str, verdict: Verdict | None = None, error: CodeError | None = None) -> CellResult:
    outcomes = tuple(Outcome(r, status=status, error=error if status == "error" else None) for r, status in enumerate(statuses))
    return CellResult(3, outcomes, Diagnosis((verdict,), Evidence(len(statuses))) if verdict else None)


ZERO = CodeError("ZeroDivisionError", "division by zero", CallSite("cell 3", 2))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Arguments()),
        ("0,2", Arguments(ranks=(0, 2))),
        ("0-3", Arguments(ranks=(0, 1, 2, 3))),
        (" 0 - 2 , 5 ", Arguments(ranks=(0, 1, 2, 5))),
        ("2,2,1", Arguments(ranks=(2, 1))),
        ("--deadline 10", Arguments(deadline_s=10.0)),
        ("--deadline=0.5 --quiet", Arguments(deadline_s=0.5, quiet=True)),
        ("--quiet 1 --deadline 3", Arguments(ranks=(1,), deadline_s=3.0, quiet=True)),
        ("print(rank)", Arguments(code="print(rank)")),
        ("0,2 print(rank, 1)", Arguments(ranks=(0, 2), code="print(rank, 1)")),
        ("0 x = 'a  b'", Arguments(ranks=(0,), code="x = 'a  b'")),
        ("1+1", Arguments(code="1+1")),
        ("--deadline 2 x - 1", Arguments(deadline_s=2.0, code="x - 1")),
    ],
)
def test_arguments(line: str, expected: Arguments) -> None:
    assert parse_line(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--deadline", "deadline must be a number of seconds above 0; for instance --deadline 10"),
        ("--deadline 0", "deadline must be a number of seconds above 0"),
        ("--deadline -3", "deadline must be a number of seconds above 0"),
        ("--deadline nan", "deadline must be a number of seconds above 0"),
        ("--deadline inf", "deadline must be a number of seconds above 0"),
        ("--deadline=soon", "deadline must be a number of seconds above 0"),
        ("--loud", "unknown option '--loud'; %%ranks 0,2 --deadline 10 --quiet has all there is"),
        ("3-0", "'3-0' runs backwards; write 0-3"),
        ("0-99999999", "'0-99999999' are too many ranks"),
        ("abc", "unrecognised argument 'abc'"),
        ("0,", "unrecognised argument '0,'"),
        ("-1", "unrecognised argument '-1'"),
        ("7", "no rank 7; this world has ranks 0-3"),
        ("3-5", "no ranks 4 and 5; this world has ranks 0-3"),
    ],
)
def test_arguments_that_cannot_be_right_are_one_line(shell: InteractiveShell, world: PaperWorld, line: str, message: str) -> None:
    done = run(shell, f"%%ranks {line}\nx = 1")
    assert isinstance(done.error, UsageError)
    assert str(done.error).startswith(message)
    assert done.printed.strip() == f"UsageError: {done.error}"
    assert world.asked == []


def test_a_silent_cell_shows_nothing_and_is_remembered(shell: InteractiveShell, world: PaperWorld) -> None:
    done = run(shell, "%%ranks 0,2 --deadline 5\nx = 1\n")
    assert (done.shown, done.printed, done.error) == ([], "", None)
    assert world.asked == [("# %%ranks 0,2 --deadline 5\nx = 1\n", (0, 2), 5.0)]
    assert shell.user_ns["_ranks"] is world.last
    assert world.last is not None


def test_line_numbers_are_those_the_learner_sees(shell: InteractiveShell, world: PaperWorld) -> None:
    run(shell, "%%ranks\n\n\nx = 1")
    assert world.asked[0][0].splitlines()[3] == "x = 1"
    assert shell.transform_cell(world.asked[0][0]).splitlines()[3] == "x = 1"


def test_output_is_one_plain_output_in_both_forms(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = said("hi\n", "hi\n", "ho\n", "hi\n")
    done = run(shell, "%%ranks\nprint()")
    assert done.shown == ["ranks 0, 1 and 3\n  hi\nrank 2\n  ho"]
    assert "<section" in done.outputs[0].data["text/html"]


def test_quiet_shows_only_trouble(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = said("hi\n")
    assert run(shell, "%%ranks --quiet\nprint()").shown == []
    world.answer = lambda _: ended("ok", "error", error=ZERO)
    assert run(shell, "%%ranks --quiet\n1/0").shown == ["rank 1: ZeroDivisionError: division by zero (cell 3, line 2)"]


def test_the_one_line_form(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = lambda _: CellResult(1, (Outcome(0, shown=Shown("2")),))
    assert run(shell, "%ranks 0 1 + 1").shown == ["rank 0\n  2"]
    assert world.asked == [("1 + 1", (0,), None)]


def test_alone_it_shows_the_status(shell: InteractiveShell, world: PaperWorld) -> None:
    done = run(shell, "%ranks")
    assert "4 ranks, gloo, raw mode" in done.printed + "".join(done.shown)
    assert world.asked == []


@pytest.mark.parametrize("cell", ["%%ranks 0\n  \n", "%ranks 0", "%ranks --quiet"])
def test_without_code_it_says_so(shell: InteractiveShell, world: PaperWorld, cell: str) -> None:
    done = run(shell, cell)
    assert str(done.error).startswith("there is no code to run; write it ")


def test_a_magic_alone_in_its_cell_is_told_by_ipython(shell: InteractiveShell, world: PaperWorld) -> None:
    assert "the cell body is empty" in run(shell, "%%ranks\n").printed


def test_without_a_world_one_line_says_how_to_start(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    def current() -> Any:
        raise NoWorld("there is no running world", hint="labkit.start() makes one")

    fake = types.ModuleType("labkit.driver.current")
    fake.current = current  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "labkit.driver.current", fake)
    done = run(shell, "%%ranks\nx = 1")
    assert done.printed.strip() == "NoWorld: there is no running world; labkit.start() makes one"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x = = 1", "invalid syntax (cell 1, line 2): x = = 1; nothing was sent to the ranks; fix the line"),
        ("x = 1\nif x\n  y", "expected ':' (cell 1, line 3): if x"),
        ("return 1", "'return' outside function (cell 1, line 2)"),
        ("await x", "'await' outside function (cell 1, line 2)"),
        ("  x = 1\n y = 2", "un"),
        ("x = '", "unterminated string literal"),
        ("x = (", "'(' was never closed"),
    ],
)
def test_a_syntax_error_is_said_once_and_nothing_is_sent(
    shell: InteractiveShell, world: PaperWorld, body: str, message: str
) -> None:
    done = run(shell, f"%%ranks\n{body}")
    assert str(done.error).startswith(message)
    assert len(done.printed.strip().splitlines()) == 1
    assert world.asked == []


def test_what_ipython_understands_passes_the_check(shell: InteractiveShell, world: PaperWorld) -> None:
    run(shell, "%%ranks\n!ls\n%time x = 1\nprint('\\d')")
    assert len(world.asked) == 1


def test_an_exception_is_shown_and_then_raised_in_one_line(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = lambda _: ended("ok", "ok", "error", "ok", error=ZERO)
    done = run(shell, "%%ranks\n1/0")
    assert done.shown == ["rank 2: ZeroDivisionError: division by zero (cell 3, line 2)"]
    assert isinstance(done.error, RankRaised)
    expected = "ZeroDivisionError on rank 2 (cell 3, line 2): division by zero; fix the line and run the cell again"
    assert str(done.error) == expected
    assert done.printed.strip() == f"RankRaised: {expected}"
    assert shell.user_ns["_ranks"].ok is False


def test_a_deadline_is_raised_with_the_verdict(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = lambda _: ended("late", "late", "ok", "late", verdict=VERDICT)
    done = run(shell, "%%ranks\nx")
    assert isinstance(done.error, DeadlineExceeded)
    assert (
        str(done.error) == "rank 2 never called all_reduce #1; call it on rank 2; world.recover() gives you working ranks again"
    )
    assert "LK003: rank 2 never called all_reduce #1." in done.shown[0]


@pytest.mark.parametrize("fault", [Injection("skip", 2, "t", ending="hang"), Injection("skip", 2, "t", ending=""), None])
def test_a_hang_that_a_fault_declares_is_no_error(shell: InteractiveShell, world: PaperWorld, fault: Injection | None) -> None:
    world.answer = lambda _: ended("late", "late", "ok", "late", verdict=VERDICT)
    world.injections = [fault] if fault else []
    done = run(shell, "%%ranks\nx")
    assert (done.error is None) == (fault is not None)
    assert len(done.shown) == 1


def test_a_fault_that_disarmed_itself_in_the_cell_still_counts_but_not_in_the_next(
    shell: InteractiveShell, world: PaperWorld
) -> None:
    def hang(world: PaperWorld) -> CellResult:
        world.injections = [Injection("skip", 2, "t", ending="hang", fired=1, active=False)]
        return ended("late", "late", verdict=VERDICT)

    world.answer = hang
    world.injections = [Injection("skip", 2, "t", ending="hang")]
    assert run(shell, "%%ranks\nx").error is None
    assert isinstance(run(shell, "%%ranks\nx").error, DeadlineExceeded)


def test_an_interrupt_is_one_line(shell: InteractiveShell, world: PaperWorld) -> None:
    world.answer = lambda _: ended("interrupted", "ok")
    done = run(shell, "%%ranks\nx")
    assert isinstance(done.error, KeyboardInterrupt)
    assert done.printed.strip() == "KeyboardInterrupt: the cell was stopped and the ranks are free"
    assert done.shown == ["rank 0: interrupted"]


def test_records_draw_themselves(shell: InteractiveShell, world: PaperWorld) -> None:
    shell.user_ns["verdict"] = VERDICT
    done = run(shell, "verdict")
    assert "LK003: rank 2 never called all_reduce #1." in done.printed + "".join(done.shown)
    assert "<section" in shell.display_formatter.format(VERDICT)[0]["text/html"]
    assert "text/html" not in shell.display_formatter.format(ended("ok"))[0]


def test_loading_twice_changes_nothing(shell: InteractiveShell, world: PaperWorld) -> None:
    assert notebook.ensure_loaded()
    notebook.load_ipython_extension(shell)
    world.answer = said("a")
    assert run(shell, "%%ranks\nx").shown == ["rank 0\n  a"]


def test_without_ipython_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook.ensure_loaded() is False
    assert "IPython" not in sys.modules


def talking(world: PaperWorld) -> CellResult:
    """Output comes from another thread, for a second."""

    def talk() -> None:
        for step in range(50):
            world.on_output(1, "stdout", f"{step}\n")
            world.on_output(0, "stdout", f"zero {step}\n")
            time.sleep(0.02)

    thread = threading.Thread(target=talk)
    thread.start()
    thread.join()
    return CellResult(1, (Outcome(0, output=(Stream("stdout", "the end\n"),)),))


def test_live_output_is_seldom_in_rank_order_and_replaced_by_the_result(
    shell: InteractiveShell, world: PaperWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_LIVE", "1")
    world.answer = talking
    published: list[tuple[dict[str, str], Any, bool]] = []

    def publish(data: dict[str, str], *, transient: Any = None, update: bool = False, **_: Any) -> None:
        published.append((data, transient, update))

    monkeypatch.setattr(shell.display_pub, "publish", publish)
    shell.run_cell("%%ranks\nx")
    assert 3 <= len(published) <= 8
    assert [update for _, _, update in published] == [False] + [True] * (len(published) - 1)
    assert len({transient["display_id"] for _, transient, _ in published}) == 1
    assert published[0][0]["text/plain"].startswith("rank 0\n  zero 0\n")
    assert max(len(data["text/plain"].splitlines()) for data, _, _ in published) <= 22
    assert published[-1][0]["text/plain"] == "rank 0\n  the end"


def test_nobody_watching_means_one_output(shell: InteractiveShell, world: PaperWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_LIVE", "0")
    world.answer = talking
    assert run(shell, "%%ranks\nx").shown == ["rank 0\n  the end"]


def test_a_world_that_refuses_leaves_no_thread(
    shell: InteractiveShell, world: PaperWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABKIT_LIVE", "1")

    def refuse(world: PaperWorld) -> CellResult:
        world.on_output(0, "stdout", "x")
        raise UsageError("no", hint="yes")

    world.answer = refuse
    assert run(shell, "%%ranks\nx").printed.strip() == "UsageError: no; yes"
    assert not [thread for thread in threading.enumerate() if thread.name == "labkit-live"]
