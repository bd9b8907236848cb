"""Stacks that a rank could not tell itself, and evidence put together from what was to be had."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.diagnosis import judge
from labkit.driver import feed as feed_module
from labkit.driver.feed import Feed, Seat, files_of
from labkit.driver.transport import ControlError
from labkit.errors import RankDead
from labkit.frames import parse_dump
from labkit.ring import FILE_BYTES, RingWriter
from labkit.wire import Call, CallSite, CodeError, Evidence, Frame, RankView, to_plain

# a process whose main thread is in "cell 3", line 2, while another thread runs; it dumps on SIGUSR1
DUMPER = """
import faulthandler, signal, sys, threading, time
file = open(sys.argv[1], "w")
faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)
threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
def inner():
    open(sys.argv[1] + ".ready", "w").close()
    {wait}
source = "def step():\\n    inner()\\nstep()\\n"
exec(compile(source, "cell 3", "exec"), {{"inner": inner}})
"""
SPINS = "while True: pass"
HOLDS = "import ctypes; f = ctypes.PyDLL(None).usleep; f.argtypes = [ctypes.c_uint]; f(20_000_000)"


def dump_of(wait: str, folder: Path) -> str:
    path = folder / "stack"
    process = subprocess.Popen([sys.executable, "-c", DUMPER.format(wait=wait), str(path)])
    try:
        end_s = time.monotonic() + 20
        while not (folder / "stack.ready").exists() and time.monotonic() < end_s:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGUSR1)
        while not path.read_text().rstrip().endswith("<module>") and time.monotonic() < end_s:
            time.sleep(0.01)
        return path.read_text()
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("wait", ["time.sleep(30)", SPINS, HOLDS], ids=["sleeps", "spins", "holds the lock"])
def test_the_main_threads_stack_out_of_a_real_dump(wait: str, tmp_path: Path) -> None:
    text = dump_of(wait, tmp_path)
    assert text.count("hread 0x") == 2
    frames = parse_dump(text)
    assert [(frame.file, frame.line, frame.function) for frame in frames if frame.site.cell] == [
        ("cell 3", 3, "<module>"), ("cell 3", 2, "step"),
    ]  # fmt: skip
    assert frames[-1].function == "inner"


@pytest.mark.parametrize("text", ["", "nonsense", "Current thread 0x1:\n", "Thread 0x1\n  File broken", "\n\n"])
def test_what_is_no_dump_has_no_frames(text: str) -> None:
    assert parse_dump(text) == ()


def test_without_a_current_thread_the_last_one_is_the_main_thread() -> None:
    blocks = [f'Thread 0x{n} (most recent call first):\n  File "{n}.py", line {n} in f\n' for n in (2, 1)]
    text = "\n".join(blocks)
    assert parse_dump(text) == (Frame("1.py", 1, "f", users=True),)


# ---- a look
class Control:
    """Answers of control threads: a value, an error, or none."""

    def __init__(self, answers: dict[int, object]) -> None:
        self.answers, self.asked = answers, []

    def control(self, rank: int, op: str, payload: dict) -> Future:
        self.asked.append((rank, op))
        future: Future = Future()
        answer = self.answers.get(rank)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return future


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> tuple[Path, list[Seat]]:
    """Two seats, both of this very process, with beacons; nobody is signalled."""
    monkeypatch.setattr(Seat, "send", lambda seat, number: True)
    monkeypatch.setattr(feed_module, "spy", lambda pid: (Frame("cell 4", 9, "spied"),))
    monkeypatch.setattr(feed_module, "ANSWER_S", 0.05)
    seats = [Seat(rank, pid=os.getpid()) for rank in range(2)]
    for seat in seats:
        writer = RingWriter(tmp_path / seat.beacon, seat.rank, seat.pid)
        writer.state(cell=4, activity="cell", now_s=10.0 + seat.rank, started_s=9.0, generation=2)
        writer.issue(Call(1, 1, "all_reduce", site=CallSite("cell 4", 2), cell=4, issued_s=10.0 + seat.rank))
        writer.close()
    return tmp_path, seats


def answer(stack: list[Frame], error: CodeError | None = None) -> dict[str, object]:
    return {"stack": to_plain(stack), "error": to_plain(error)}


def test_beacon_system_and_control_thread_make_one_view(here) -> None:
    folder, seats = here
    stack = [Frame("cell 4", 2, "<module>"), Frame("cell 3", 1, "g", users=True)]
    control = Control({0: answer(stack), 1: answer([], CodeError("ValueError", "no"))})
    found = Feed(folder, seats, control).look(Evidence(2), sources={"4": "def f():", "3": "def g():", "2": "..."})
    first, second = found.ranks
    assert (first.process, first.activity, first.cell, first.generation, first.answers) == ("running", "call", 4, 2, True)
    assert (first.stack, first.stack_from, first.last_progress_s) == (tuple(stack), "control", 10.0)
    assert second.error == CodeError("ValueError", "no")
    assert found.sources == {"4": "def f():", "3": "def g():"}, "those that are met, also where they only made a function"
    assert found.taken_s > 0
    assert control.asked == [(0, "state"), (1, "state")]


def test_an_error_that_a_control_thread_sends_back_is_an_answer(here) -> None:
    folder, seats = here
    control = Control({0: answer([]), 1: ControlError("rank 1: KeyError: 'x'", hint="none")})
    with pytest.warns(UserWarning, match="could not read what a rank is doing: rank 1: KeyError"):
        found = Feed(folder, seats, control).look(Evidence(2))
    assert [view.answers for view in found.ranks] == [True, True], "a rank that answers does not hold the interpreter lock"
    assert found.ranks[1].stack_from == "py-spy"


@pytest.mark.parametrize("reply", [None, RankDead("no", hint="none")])
def test_a_rank_that_does_not_answer_is_looked_at_from_outside(here, reply: object) -> None:
    folder, seats = here
    found = Feed(folder, seats, Control({0: answer([]), 1: reply})).look(Evidence(2))
    assert [view.answers for view in found.ranks] == [True, False]
    assert (found.ranks[1].stack, found.ranks[1].stack_from) == ((Frame("cell 4", 9, "spied"),), "py-spy")
    assert found.ranks[1].waiting_in.op == "all_reduce", "its beacon speaks all the same"


def test_a_dump_by_signal_is_read_from_where_the_last_one_ended(here, monkeypatch) -> None:
    folder, seats = here
    path = folder / "rank-1.stack"
    old = 'Current thread 0x1 (most recent call first):\n  File "cell 1", line 1 in old\n'
    path.write_text(old)
    monkeypatch.setattr(Seat, "send", lambda seat, number: path.write_text(old + old.replace("old", "new")) > 0)
    found = Feed(folder, seats, Control({0: answer([])})).look(Evidence(2))
    assert found.ranks[1].stack == (Frame("cell 1", 1, "new", users=True),)
    assert found.ranks[1].stack_from == "signal"


def test_a_look_without_asking_asks_nobody(here) -> None:
    folder, seats = here
    control = Control({})
    found = Feed(folder, seats, control).look(Evidence(2), ask=False)
    assert control.asked == []
    assert all(view.answers and view.stack == () for view in found.ranks)


def test_the_dead_and_those_of_another_life_are_not_mistaken(here) -> None:
    folder, seats = here
    seats[0].exit_code = -9
    writer = RingWriter(folder / seats[1].beacon, 1, pid=12)  # left by the process that had the seat before
    writer.issue(Call(1, 1, "broadcast", issued_s=1.0))
    writer.close()
    control = Control({0: answer([]), 1: answer([])})
    found = Feed(folder, seats, control).look(Evidence(2))
    assert (found.ranks[0].process, found.ranks[0].exit_code) == ("dead", -9)
    assert found.ranks[0].calls, "what it did last is known"
    assert (found.ranks[1].calls, found.ranks[1].generation) == ((), 0)


def test_beats_are_cheap_and_zero_without_a_beacon(here) -> None:
    folder, seats = here
    assert Feed(folder, seats, Control({})).beats() == (10.0, 11.0)
    (folder / seats[0].beacon).unlink()
    assert Feed(folder, seats, Control({})).beats() == (0.0, 11.0)
    gone = [dataclasses.replace(seat, rank=seat.rank + 7) for seat in seats]
    assert [view.calls for view in Feed(folder, gone, Control({})).look(Evidence(2), ask=False).ranks] == [(), ()]


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(
    damages=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(8, 70) | st.integers(128, 128 + 24 * 160) | st.integers(FILE_BYTES - 96 * 1024, FILE_BYTES - 95 * 1024),
            st.binary(min_size=1, max_size=4),
        ),
        max_size=12,
    )
)
def test_damaged_beacons_never_end_a_diagnosis(damages: list[tuple[int, int, bytes]]) -> None:
    """Whatever two ranks' beacons hold, there is evidence and a judgement of it."""
    with tempfile.TemporaryDirectory() as name:
        folder, seats = Path(name), [Seat(rank, pid=os.getpid()) for rank in range(2)]
        for seat in seats:
            writer = RingWriter(folder / seat.beacon, seat.rank, seat.pid)
            writer.state(cell=4, activity="cell", now_s=10.0, started_s=9.0, generation=2)
            for index in range(1, 25):
                group = "world" if index % 3 else "evens"
                site = CallSite("cell 4", index % 5 + 1)
                seq = index - index // 3 if group == "world" else index // 3
                call = Call(index, seq, "all_reduce", group, (0, 1), (2, 3), "float32", site=site, cell=4, issued_s=10.0)
                writer.finish(writer.issue(call), index, "issued" if index == 24 else "done", 10.5)
            writer.close()
        for rank, at, content in damages:
            with (folder / seats[rank].beacon).open("r+b") as file:
                file.seek(at)
                file.write(content)
        base = Evidence(2, cell=4, targets=(0, 1))
        evidence = Feed(folder, seats, Control({})).look(base, ask=False, sources={"4": "one\ntwo\nthree\n"})
        assert len(evidence.ranks) == 2
        str(judge(evidence))


def test_a_dead_ranks_stack_is_the_one_that_it_left_or_that_was_seen_last(here) -> None:
    folder, seats = here
    seen = (Frame("cell 4", 3, "grow", users=True),)
    feed = Feed(folder, seats, Control({0: answer([]), 1: {**answer([]), "stack": to_plain(list(seen))}}))
    ring = RingWriter(folder / "rank-1.beacon", 1, seats[1].pid)
    ring.state(cell=4, activity="cell", now_s=1.0, started_s=1.0, generation=1)
    assert feed.look(Evidence(2)).ranks[1].stack == seen
    seats[1].exit_code = -9
    view = feed.look(Evidence(2), ask=False).ranks[1]
    assert (view.stack, view.stack_from) == (seen, "seen")
    ring.issue(Call(1, 1, "barrier"))  # it was elsewhere by then
    assert feed.look(Evidence(2), ask=False).ranks[1].stack == ()
    crash = 'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "cell 4", line 9 in f\n'
    (folder / "rank-1.crash").write_text(crash)
    view = feed.look(Evidence(2), ask=False).ranks[1]
    assert (view.line, view.stack_from) == (CallSite("cell 4", 9, "f"), "crash")


def test_files_of_the_learners_are_read_for_the_lines_in_verdicts(tmp_path: Path) -> None:
    module, large = tmp_path / "seg.py", tmp_path / "large.py"
    module.write_text("import torch\n\ndist.all_reduce(t)\n")
    large.write_text("x = 1\n" * 100_000)
    chain = (CallSite("cell 2", 4), CallSite(str(module), 3, "mean"))
    calls = (Call(1, 1, "all_reduce", site=chain[-1], chain=chain), Call(2, 2, "barrier", site=CallSite(str(large), 1)))
    error = CodeError("ValueError", "", CallSite(str(tmp_path / "gone.py"), 1))
    texts = files_of([RankView(0, calls=calls), RankView(1, error=error)])
    assert texts == {str(module): module.read_text()}
    assert Evidence(2, sources=texts).source_line(chain[-1]) == "dist.all_reduce(t)"
    module.write_text("# another line\n" + module.read_text())
    assert files_of([RankView(0, calls=calls)])[str(module)].startswith("# another line"), "as it is now"
