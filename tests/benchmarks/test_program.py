"""A measured program: its channel, its deadlines, and that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.bench import Bench
from benchmarks.core import BenchError
from benchmarks.program import Program, environment, left_behind

SERVES = """
from benchmarks.channel import Channel
channel = Channel()
channel.tell(event="up")
channel.serve({"double": lambda number: number * 2})
"""


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(1) as made:
        yield made


def program(bench: Bench, source: str) -> Program:
    return Program(["-c", source], environment(bench.mark, bench.folder), bench.folder, "program")


def test_it_tells_and_answers(bench: Bench) -> None:
    with program(bench, SERVES) as served:
        assert served.hear(30.0) == {"event": "up"}
        assert served.ask("double", number=21) == 42
        assert 0 < served.age_s < 60
    assert list(left_behind(bench.mark)) == []


def test_what_it_said_last_is_in_the_error(bench: Bench) -> None:
    with (
        program(bench, "raise SystemExit('no torch here')") as ended,
        pytest.raises(BenchError, match=r"program ended.*no torch here"),
    ):
        ended.hear(30.0)


def test_an_op_that_fails_ends_it_with_its_traceback(bench: Bench) -> None:
    with program(bench, SERVES) as served:
        served.hear(30.0)
        with pytest.raises(BenchError, match="KeyError: 'triple'"):
            served.ask("triple", number=1)


def test_one_that_says_nothing_is_ended_by_its_pid(bench: Bench) -> None:
    with program(bench, "import time; time.sleep(600)") as silent:
        with pytest.raises(BenchError, match=r"said nothing for 0\.2 s"):
            silent.hear(0.2)
        pid = silent.pid
    assert not psutil.pid_exists(pid)


def test_an_orphan_is_found_and_ended(bench: Bench) -> None:
    source = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    )
    with program(bench, source) as parent, pytest.raises(BenchError):
        parent.hear(30.0)
    (told,) = bench.tidy(0.2)
    assert "time.sleep(600)" in told
    assert [process for process in left_behind(bench.mark) if process.status() != psutil.STATUS_ZOMBIE] == []


def test_both_sides_get_one_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("LABKIT_RANKS", "2")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    env = environment("mark", tmp_path)
    assert "PYTHONDONTWRITEBYTECODE" not in env
    assert "LABKIT_RANKS" not in env
    assert env["GLOO_SOCKET_IFNAME"] == "lo"
