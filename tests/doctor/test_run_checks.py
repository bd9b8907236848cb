"""The doctor as a whole: broken and late checks are lines, the report travels, the real thing works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit import wire
from labkit.doctor import CHECKS, CheckResult, DoctorReport, default_ranks, run_checks
from labkit.doctor.base import Check, Context, Finding
from labkit.doctor.facts import Probe, ask, python
from labkit.errors import UnknownName
from labkit.views import to_html, to_text

REPORT = DoctorReport(
    (
        CheckResult("shm", "Shared memory", "warn", "64 MiB", "give --shm-size=1g", {"size_bytes": 67108864}),
        CheckResult("x", "A <b>title</b>", "fail", "a < b & c", 'say "x"'),
        CheckResult("python", "Python", "ok", "3.11.7"),
    ),
    ranks=4,
    elapsed_s=1.25,
)


@pytest.fixture
def planted() -> Iterator[None]:
    """Two checks that misbehave."""

    def breaks(context: Context) -> Finding:
        raise ZeroDivisionError("first line\nsecond line")

    CHECKS.load()
    CHECKS.add("breaks", Check("breaks", "Breaks", breaks, 1, 5.0))
    CHECKS.add("hangs", Check("hangs", "Hangs", lambda context: Finding("ok", str(context.stop.wait(30))), 2, 0.2))
    yield
    for name in ("breaks", "hangs"):
        del CHECKS._things[name]


@pytest.mark.usefixtures("planted")
def test_a_check_that_breaks_or_hangs_is_a_line() -> None:
    began = time.monotonic()
    report = run_checks(["breaks", "hangs", "python"], ranks=2)
    assert time.monotonic() - began < 2
    assert [result.status for result in report.results] == ["fail", "fail", "ok"]
    assert report["breaks"].detail == "the check itself broke: ZeroDivisionError: first line second line"
    assert report["hangs"].detail == "no answer within 200 ms"
    assert report.exit_code == 1
    # It is told that the visit is over, so that it can end what it holds.
    assert not [thread for thread in threading.enumerate() if thread.name == "labkit-doctor-hangs"]


def test_unknown_check() -> None:
    with pytest.raises(UnknownName, match="did you mean 'memory'"):
        run_checks(["memry"])


def test_every_check_has_its_own_place_and_title() -> None:
    checks = CHECKS.values()
    assert len({one.order for one in checks}) == len({one.title for one in checks}) == len(checks) >= 20


def test_default_ranks() -> None:
    assert [default_ranks({"LABKIT_RANKS": text}) for text in ("8", "x", "0", " 2 ")] == [8, 4, 4, 2]
    assert default_ranks({}) == 4


def test_shared_facts_are_gathered_once() -> None:
    context, asked = Context(2, {}), []

    def gather() -> int:
        time.sleep(0.05)
        asked.append(1)
        return 7

    threads = [threading.Thread(target=context.shared, args=("x", gather)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (context.shared("x", gather), len(asked)) == (7, 1)


def test_the_report_travels() -> None:
    assert wire.loads(wire.dumps(REPORT)) == REPORT


def test_text_form() -> None:
    text = to_text(REPORT)
    lines = text.splitlines()
    assert lines[0].split() == ["WARN", "Shared", "memory", "64", "MiB"]
    assert "-> give --shm-size=1g" in lines[1]
    assert "A <b>title</b>" in text
    assert lines[-1] == "1 thing will not work for 4 ranks; besides, 1 warning. (1.25 s)"
    assert "\x1b" not in text


def test_html_form() -> None:
    page = to_html(REPORT)
    assert "a &lt; b &amp; c" in page
    assert "<b>title" not in page
    assert "FAIL<" in page


def test_a_probe_is_ended_at_its_deadline() -> None:
    began = time.monotonic()
    probe = Probe(python("import time; print('{\"half\": 1}', flush=True); time.sleep(60)"), os.environ)
    answer = probe.answer(0.8, threading.Event())
    probe.end()
    assert answer.late
    assert time.monotonic() - began < 5
    assert not psutil.pid_exists(probe.pid)
    assert answer.json() == {"half": 1}


def test_a_probe_is_ended_when_the_visit_is_over() -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert ask(python("import time; time.sleep(60)"), os.environ, 60, stop).late


def test_a_probe_that_dies_says_why() -> None:
    answer = ask(python("raise ImportError('libcudnn.so.9: not found')"), os.environ, 10, threading.Event())
    assert (answer.code, answer.complaint()) == (1, "ImportError: libcudnn.so.9: not found")


def test_torch_that_does_not_import(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudnn.so.9: cannot open shared object file')\n")
    report = run_checks(
        ["torch", "collective", "sharing"], ranks=2, env={**os.environ, "PYTHONPATH": str(tmp_path)}, run_root=tmp_path
    )
    assert "libcudnn.so.9" in report["torch"].detail
    assert "libcudnn.so.9" in report["collective"].detail
    assert report["sharing"].status == "note"


def test_ranks_that_hang_are_ended_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {child.pid for child in psutil.Process().children(recursive=True)}  # other lanes keep a browser or a world
    began = time.monotonic()
    report = run_checks(
        ["collective"], ranks=2, env={**os.environ, "PYTHONPATH": str(tmp_path)}, run_root=tmp_path, deadline_s=1.0
    )
    assert time.monotonic() - began < 5
    assert report["collective"].status == "fail"
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("labkit-doctor")] == []


@pytest.mark.gloo
def test_the_real_run_from_a_fresh_process(tmp_path: Path) -> None:
    source = (
        "import json, sys\nfrom pathlib import Path\nfrom labkit import wire\nfrom labkit.doctor import run_checks\n"
        f"report = run_checks(ranks=2, run_root=Path({str(tmp_path / 'none')!r}))\n"
        "print(json.dumps({'torch': 'torch' in sys.modules, 'report': wire.to_plain(report)}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=100, check=True, cwd=Path(__file__).parents[2]
    )
    answer = json.loads(done.stdout)
    report = wire.from_plain(answer["report"])
    assert answer["torch"] is False
    assert {result.name for result in report.results} == set(CHECKS)
    assert report["collective"].status == "ok", report["collective"].detail
    assert report["collective"].facts["values"] == (5.0, 5.0)
    assert report["torch"].status == "ok"
    assert not [result for result in report.results if "broke" in result.detail]
    assert done.stderr == ""
