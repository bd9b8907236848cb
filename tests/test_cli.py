"""The command line: exit codes, one line for a mistake, nothing heavy before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import labkit.doctor
from labkit import cli, wire
from labkit.doctor import CheckResult, DoctorReport
from labkit.doctor import experiment as experiment_module
from labkit.errors import RecoveryError
from labkit.processes import pid_namespace

HERE = Path(__file__).parent.parent


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labkit.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=HERE, check=False, **options)


@pytest.fixture
def run_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("LABKIT_RUN_ROOT", str(folder))
    return folder


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def write_world(root: Path, owner: int, owner_start: float, child: subprocess.Popen[bytes]) -> None:
    (root / "w1").mkdir()
    pids = {str(child.pid): psutil.Process(child.pid).create_time()}
    (root / "w1" / "world.json").write_text(
        json.dumps({"owner_pid": owner, "owner_start": owner_start, "pids": pids, "pid_ns": pid_namespace()})
    )


def test_help_loads_nothing_heavy() -> None:
    source = (
        "import sys\nfrom labkit import cli\ncode = cli.main(['--help'])\n"
        "heavy = {'torch', 'ipyparallel', 'plotly', 'numpy', 'psutil', 'rich', 'IPython', 'ipywidgets'} & set(sys.modules)\n"
        "print(code, sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, cwd=HERE, check=True)
    assert done.stderr == "0 []\n"
    assert all(command in done.stdout for command in cli.COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "labkit: which command; there are: doctor, stop, faults, labs, bench, hosts, version\n"),
        (["docter"], "labkit: no command 'docter'; did you mean 'labkit doctor'?\n"),
        (["zzz"], "labkit: no command 'zzz'; there are: doctor, stop, faults, labs, bench, hosts, version\n"),
        (
            ["doctor", "--ranks", "0"],
            "labkit: argument --ranks: '0' is not a number of ranks from 1 to 1024; try 'labkit doctor --help'\n",
        ),
        (["doctor", "--ranks"], "labkit: argument --ranks: expected one argument; try 'labkit doctor --help'\n"),
        (["stop", "now"], "labkit: unrecognized arguments: now; try 'labkit --help'\n"),
        (["faults", "swaped-order"], "labkit: no fault 'swaped-order'; did you mean 'swapped-order'?\n"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr() == ("", line)


def test_errors_and_interruption_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(**_: object) -> DoctorReport:
        raise RecoveryError("no rung held", hint="start anew")

    def interrupted(**_: object) -> DoctorReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["labkit.doctor"], "run_checks", fails)
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().err == "labkit: no rung held; start anew\n"
    monkeypatch.setattr(sys.modules["labkit.doctor"], "run_checks", interrupted)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "labkit: interrupted\n"


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("note", 0), ("warn", 0), ("fail", 1)])
def test_doctor_exit_codes(status: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    report = DoctorReport(
        (CheckResult("shm", "Shared memory", status, "64 MiB", facts={"size_bytes": 1}),), ranks=3, elapsed_s=0.5
    )
    asked: list[object] = []

    def planted(*, ranks: int | None, on_result: Callable[[CheckResult], None]) -> DoctorReport:
        asked.append(ranks)
        on_result(report.results[0])
        return report

    monkeypatch.setattr(sys.modules["labkit.doctor"], "run_checks", planted)
    assert cli.main(["doctor", "--ranks", "3"]) == code
    assert "Shared memory" in capsys.readouterr().out
    assert cli.main(["doctor", "--json"]) == code
    plain = json.loads(capsys.readouterr().out)
    assert plain["ok"] is (code == 0)
    assert wire.from_plain(plain) == report
    assert asked == [3, None]


@pytest.mark.gloo
def test_doctor_for_real_is_one_json_document(run_root: Path) -> None:
    done = run("doctor", "--json", "--ranks", "2", env={**os.environ, "LABKIT_RUN_ROOT": str(run_root)})
    plain = json.loads(done.stdout)
    assert done.returncode == (0 if plain["ok"] else 1)
    assert {"$", "results", "ranks", "elapsed_s", "ok"} == set(plain)
    keys = {"$", "name", "title", "status", "detail", "next_step", "facts", "elapsed_s"}
    assert all(set(result) == keys and result["status"] in ("ok", "note", "warn", "fail") for result in plain["results"])
    assert all(result["next_step"] for result in plain["results"] if result["status"] in ("warn", "fail"))


def test_stop_ends_strays_and_removes_their_folder(
    run_root: Path, child: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(run_root, 2**22 - 3, 1.0, child)
    assert cli.main(["stop"]) == 0
    assert capsys.readouterr().out == f"w1: ended 1 process ({child.pid})\nremoved 1 folder of ended worlds\n"
    assert child.wait(5) != 0
    assert list(run_root.iterdir()) == []
    assert cli.main(["stop"]) == 0
    assert capsys.readouterr().out == "nothing to stop\n"


def test_stop_asks_before_it_ends_a_world_that_is_in_use(
    run_root: Path, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(run_root, os.getpid(), psutil.Process().create_time(), child)
    assert cli.main(["stop"]) == 0  # its notebook lives: not ours to end
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert cli.main(["stop", "--all"]) == 2
    assert "add --yes if that is meant" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "n\n", raising=False)
    assert cli.main(["stop", "--all"]) == 0
    assert child.poll() is None
    assert cli.main(["stop", "--all", "--yes"]) == 0
    assert child.wait(5) != 0


def test_stop_says_what_belongs_to_another_container(
    run_root: Path, child: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(run_root, 2**22 - 3, 1.0, child)
    note = run_root / "w1" / "world.json"
    note.write_text(note.read_text().replace("pid:[", "pid:[9"))
    assert cli.main(["stop", "--all", "--yes"]) == 0
    assert capsys.readouterr().out == "nothing to stop\nleft alone: w1 belongs to another container\n"
    assert child.poll() is None
    assert note.exists()


def test_stop_does_not_believe_an_open_folder(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root.chmod(0o777)
    assert cli.main(["stop"]) == 1
    assert "is open to other users" in capsys.readouterr().err


def test_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["faults"]) == 0
    listed = capsys.readouterr().out
    assert "swapped-order" in listed
    assert cli.main(["faults", "swapped-order"]) == 0
    page = capsys.readouterr().out
    assert all(part in page for part in ("A rank cell that shows it:", "Cure: ", "raw", "safe", 'world.inject("swapped-order"'))


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("LABKIT_API_TOKEN", "hush")
    monkeypatch.setattr(sys, "orig_argv", ["/home/ada/bin/python", "/home/ada/bin/labkit", "version"])
    assert cli.main(["version", "--json"]) == 0
    text = capsys.readouterr().out
    record = wire.from_plain(json.loads(text))
    assert isinstance(record, experiment_module.ExperimentRecord)
    assert record.packages["torch"].startswith("2.15")
    assert record.environment["NCCL_DEBUG"] == "WARN"
    assert record.launch == "python labkit version"
    assert "hush" not in text
    assert cli.main(["version"]) == 0
    assert "launched by" in capsys.readouterr().out


def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; sys.stdin.readline(); from labkit import cli; raise SystemExit(cli.main(['faults']))",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=HERE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.close()  # before a word is written
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A shell runs `line`, in which `labkit` is the command."""
    line = line.replace("labkit", f"'{sys.executable}' -m labkit.cli")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=100, cwd=HERE, check=False)


@pytest.mark.parametrize("command", ["faults", "bench --ranks 2", "hosts up", "version --json", "--help"])
def test_closed_output_is_one_line_before_anything_starts(command: str) -> None:
    done = shell(f"labkit {command} >&-")
    said = "labkit: standard output is closed; send it to a file, or to /dev/null\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("command", ["faults", "--help"])
def test_a_full_disk_is_one_line(command: str) -> None:
    done = shell(f"labkit {command} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "labkit: can't write to standard output: No space left on device\n")


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_the_other_streams_change_nothing(stream: str) -> None:
    done = shell(f"labkit faults slow {stream}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shell("labkit faults slow").stdout
    wrong = shell(f"labkit faults slwo {stream}")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_a_terminal_without_greek_letters_is_no_error() -> None:
    done = run("faults", "slow", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_doctor_package_is_what_the_facade_shows() -> None:
    assert labkit.doctor is sys.modules["labkit.doctor"].run_checks


def test_python_m_labkit_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "labkit", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("usage: labkit ")
