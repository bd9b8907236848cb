"""`labkit bench`: files of results that are damaged or none, and options that can't be: one line before a world starts."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import labkit.driver.start
from labkit import cli
from labkit.errors import UsageError
from labkit.schedule.external import read_results
from labkit.schedule.sweeps import Sweep

from .modelled import modelled

OSU = "# OSU MPI Allreduce Latency Test v7.5\n# Size  Avg Latency(us)\n"
NCCL = "#   size  count  type  redop  root  time  algbw  busbw  #wrong\n"
OWN = "name,collective,size_bytes,time_us\n"
MANY = "9" * 5000


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of ranks of each world that was started: scripted ones."""
    made: list[int] = []

    def start(ranks: int | None, *_: Any, **__: Any) -> Any:
        made.append(ranks or 4)
        return modelled(ranks or 4).world()

    monkeypatch.setattr(labkit.driver.start, "start", start)
    return made


DAMAGED = [
    f"{OSU}1024  12.5\n4096  1.2.3\n", f"{OSU}1024  .\n", f"{OSU}1024  -\n", f"{OSU}1024  nan\n", f"{OSU}1024  -inf\n",
    f"{OSU}{MANY}  12.5\n", f"{OSU}1024  1e99\n", f"{OSU}1024  -3\n",
    f"{NCCL}{MANY}  256  float  sum  -1  33.05  0.03  0.05  0\n", f"{NCCL}1024  256  float  sum  -1\n",
    f"{NCCL}1024  256  float  sum  -1  1.2.3  0.03  0.05  0\n", f"{NCCL}1024  256  float  sum  -1  1e99  0.03  0.05  0\n",
    f"{OWN}ring,all_reduce,1024,inf\n", f"{OWN}ring,all_reduce,1024,nan\n", f"{OWN}ring,all_reduce,{MANY},1\n",
    f"{OWN}ring,all_reduce,1024\n", f"{OWN}ring,all_reduce,1_024,5\n", f"{OWN}ring,all_reduce,1024,-5\n",
    f"{OWN}ring,all_reduce,1024,{'1' * (csv.field_size_limit() + 1)}\n", "name,collective,\nring,all_reduce,5\n",
]  # fmt: skip


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_one_line_before_a_world_starts(
    text: str, form: list[str], tmp_path: Path, started: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "theirs.txt"
    path.write_text(text)
    assert cli.main(["bench", "--ranks", "2", "--beside", str(path), *form]) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n"), started) == ("", 1, [])
    assert "no size and time in the line" in said or "unknown format of results" in said
    assert len(said) < 250


def test_times_are_in_the_column_that_the_head_names() -> None:
    text = f"{NCCL}1024  256  float  sum  -1  1.2e+05  0.1  0.2  0  3.4e+05  0.1  0.2  0\n"
    assert read_results(text, 4).times == (pytest.approx(0.12),)
    plain = "#   size  count  type  time  algbw  busbw\n  1024  256  float  7.5  0.1  0.2\n"
    assert read_results(plain, 4).times == (pytest.approx(7.5e-6),)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, started: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("/dev/zero", str(pipe), str(tmp_path)):
        assert cli.main(["bench", "--beside", path]) == 2
        assert "is not a file; keep the tool's output in one" in capsys.readouterr().err
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(1 << 30)
    for path, says in ((str(big), "too large"), ("a\0b", "can't be read"), ("n" * 300, "File name too long")):
        assert cli.main(["bench", "--beside", path]) == 2
        said = capsys.readouterr().err
        assert says in said
        assert said.count("\n") == 1
    assert started == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--members", "0,0"], "rank 0 is named twice; name each rank once"),
        (["--members", "0,7"], "no rank 7; this world has ranks 0-3"),
        (["--members", MANY], "ranks can't be"),
        (["--ranks", MANY], "is not a number of ranks from 1 to 1024"),
        (["--rounds", "0"], "0 is not a valid number of rounds"),
        (["--warmups", "-1"], "-1 is not a valid number of rounds"),
        (["--dtype", "float33"], "no dtype 'float33'"),
        (["--op", "sun"], "no reduce op 'sun'"),
        (["--op", "avg", "--dtype", "int8"], "AVG of int8 is not defined"),
        (["--sizes", "99999999999999G"], "is not a size"),
    ],
)
def test_options_that_can_not_be_are_told_before_a_world_starts(
    options: list[str], says: str, started: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "--ranks", "4", *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert (said.count("\n"), started) == (1, [])


def test_sizes_that_come_to_one_are_a_table(started: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--ranks", "2", "--sizes", "1,2,3,4", "--rounds", "1", "--warmups", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#")] == ["4"]
    assert lines[0].endswith("2 ranks, 1 round to warm up")
    assert started == [2]


@pytest.mark.parametrize(
    ("form", "changes", "code", "says"),
    [
        ("--csv", {"interrupted": True}, 130, "labkit: interrupted: what was measured until then is written\n"),
        ("--json", {"interrupted": True}, 130, "labkit: interrupted: what was measured until then is written\n"),
        ("--csv", {"error": "rank 1 died"}, 1, "labkit: ended early: rank 1 died\n"),
        ("--csv", {}, 0, ""),
    ],
)
def test_output_for_programs_is_told_to_be_a_part(
    form: str, changes: dict[str, Any], code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Sweep("gloo", 4, (), **changes)
    world = SimpleNamespace(sweep=lambda *_, **__: found, stop=lambda: None)
    monkeypatch.setattr(labkit.driver.start, "start", lambda *_, **__: world)
    assert cli.main(["bench", form]) == code
    out, said = capsys.readouterr()
    assert said == says
    if form == "--json":
        assert json.loads(out)["interrupted"]


def test_a_table_without_a_line_of_numbers_is_no_result() -> None:
    with pytest.raises(UsageError, match="unknown format of results"):
        read_results(f"{OSU}2 processes were started\n", 4)
