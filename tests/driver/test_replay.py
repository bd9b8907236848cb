"""Recordings: written whole and private, read back the same, and judged by the rules of today as when they were made."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.diagnosis import judge
from labkit.driver.replay import Entry, Replay
from labkit.errors import UsageError, WireError
from labkit.faults import FAULTS
from labkit.plain import tidy
from labkit.schedule.records import ScheduleRun
from labkit.testing import Script, ok, record, replay
from labkit.views import to_html, to_text
from labkit.wire import CellResult, Frame, Injection, RecoveryReport, TensorSample

from ..modelled import modelled

CORPUS = Path(__file__).resolve().parent.parent / "data" / "evidence"
FILES = sorted(CORPUS.glob("*.jsonl"))


# ---- the corpus: real runs on gloo
def test_the_corpus_has_every_fault_and_stays_small() -> None:
    recorded = {file.stem for file in FILES}
    assert len(recorded) >= 15
    assert recorded <= set(FAULTS)
    assert sum(file.stat().st_size for file in FILES) < 400_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rules_of_today_say_of_a_real_run_what_was_said_then(file: Path) -> None:
    recording = replay(file)
    assert [str(change) for change in recording.rejudge() if not change.only_words] == []
    (injection,) = [value for value in recording if isinstance(value, Injection)]
    judged = [diagnosis for _, _, diagnosis in recording.diagnoses()]
    assert judged
    for diagnosis in judged:
        assert diagnosis.verdict.code in FAULTS[file.stem].expect["raw"].codes
        assert diagnosis.verdict.culprits == (injection.rank,)
    assert injection.fired == 1
    assert injection.verdict == judged[0].verdict.code


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_real_run_draws_itself_and_the_world_was_mended(file: Path) -> None:
    recording = replay(file)
    for value in recording:
        assert to_text(value)
        assert to_html(value)
    report = [value for value in recording if isinstance(value, RecoveryReport)][-1]
    assert set(report.replaced) <= {1}
    assert recording.entries[0].value.diagnosis is None, "a healthy cell gets no verdict"


# ---- the corpus: real runs in safe mode, and of schedules
SAFE = sorted((CORPUS.parent / "safe").glob("*.jsonl"))
SCHEDULES = sorted((CORPUS.parent / "schedules").glob("*.jsonl"))


@pytest.mark.parametrize("file", SAFE, ids=lambda file: file.stem)
def test_in_safe_mode_a_fault_is_an_error_on_the_ranks_that_wait_and_is_named(file: Path) -> None:
    recording, fault = replay(file), FAULTS[file.stem]
    assert [str(change) for change in recording.rejudge() if not change.only_words] == []
    healthy, broken = (value for value in recording if isinstance(value, CellResult))
    assert healthy.ok
    assert healthy.diagnosis is None
    assert broken.diagnosis.evidence.mode == "safe"
    assert broken.diagnosis.verdict.code in fault.expect["safe"].codes
    assert broken.diagnosis.verdict.culprits == (1,)
    waiting = [outcome for outcome in broken.outcomes if outcome.rank != 1]
    if fault.expect["safe"].ending != "slow":
        assert {outcome.error.type for outcome in waiting} == {"ContractError"}, "nobody stays stuck"


def test_the_corpus_has_every_fault_in_safe_mode_and_every_fault_of_a_schedule() -> None:
    assert len(SAFE) >= 15
    assert {file.stem for file in SAFE} <= set(FAULTS)
    assert len(SCHEDULES) >= 12
    assert {file.stem for file in SCHEDULES} <= {fault.name for fault in FAULTS.values() if fault.in_schedule is not None}
    assert sum(file.stat().st_size for file in (*SAFE, *SCHEDULES)) < 1_000_000


@pytest.mark.parametrize("file", SCHEDULES, ids=lambda file: file.stem)
def test_a_fault_in_a_schedule_is_named_with_its_rank_and_algorithm(file: Path) -> None:
    recording, expected = replay(file), FAULTS[file.stem].in_schedule
    assert expected is not None
    assert [str(change) for change in recording.rejudge() if not change.only_words] == []
    runs = [value for value in recording if isinstance(value, ScheduleRun)]
    injections = [value for value in recording if isinstance(value, Injection)]
    assert [run.name for run in runs] == ["ring", "binomial-tree"]
    for run, injection in zip(runs, injections, strict=True):
        assert (injection.fired, injection.ending) == (1, expected.ending)
        assert run.diagnosis is not None
        verdict = run.diagnosis.verdict
        assert verdict is not None
        assert (verdict.code, verdict.culprits) == (injection.verdict, (injection.rank,))
        assert verdict.code in expected.codes
        assert f" of {run.name}" in verdict.sentence
        assert run.agrees == (expected.ending == "slow")
        assert to_text(run)
        assert to_html(run)


# ---- writing
def test_a_recorder_is_the_world_and_writes_what_it_gives(tmp_path: Path) -> None:
    path, script = tmp_path / "run.jsonl", Script(2)
    script.on("pull", ok({"kind": "json", "text": "[1.0]"}))
    script.on("sample", lambda rank, asked: ok(TensorSample(rank, asked["name"], (1,), "float32", "cpu", 4, (1.0,), (0,))))
    with script.world() as world, record(world, path, "first") as noted:
        assert noted.world_size == 2
        result = noted.run_cell("x = torch.ones(1)\nx")
        noted.note = "second"
        assert noted.pull("x")[0] == [1.0]
        with noted.inject("slow", 1):
            pass
        report = noted.recover()
        table = noted.tensors("x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = replay(path)
    assert [(entry.call, entry.note) for entry in again.entries] == [
        ("run_cell", "first"), ("inject", "second"), ("recover", "second"), ("tensors", "second"),
    ]  # fmt: skip
    assert (again.entries[0].value, again.entries[2].value, again.entries[3].value) == (result, report, table)


def test_runs_comparisons_and_sweeps_come_back_marked(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with modelled(3).world() as world, record(world, path, "three ranks") as noted:
        made = [noted.run_schedule("ring"), noted.compare(["ring"]), noted.sweep([1024, 4096, 8192], ["ring"])]
    again = replay(path)
    given = [again.run_schedule(), again.compare(), again.sweep()]
    assert [replace(value, source=None) for value in given] == made
    assert {(value.source.about, value.source.backend, value.source.world_size) for value in given} == {
        ("three ranks", "gloo", 3)
    }
    assert all("not run here" in str(value) and "not run here" in to_html(value) for value in given)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("mine")
    with Script(1).world() as world:
        with pytest.raises(UsageError, match="is there already"):
            record(world, path)
        with pytest.raises(UsageError, match="can't write"):
            record(world, tmp_path / "no" / "run.jsonl")
    assert path.read_text() == "mine"


def test_every_line_is_one_write(tmp_path: Path, monkeypatch) -> None:
    writes: list[bytes] = []
    with Script(2).world() as world, record(world, tmp_path / "r.jsonl") as noted:
        monkeypatch.setattr(os, "write", lambda file, data: writes.append(data))
        noted.run_cell("print('a\\nb')")
        noted.status()
    monkeypatch.undo()
    assert [data.count(b"\n") for data in writes] == [1, 1]
    assert all(data.endswith(b"\n") for data in writes)


def test_folders_of_this_machine_are_cut() -> None:
    home = str(Path.home())
    assert tidy(Frame(f"{home}/project/train.py", 1, "step")).file == "project/train.py"
    assert tidy(CellResult(1, (), None)) == CellResult(1, (), None)
    assert tidy(Entry("a", {"k": [f"{home}/x"]})).value == {"k": ("x",)}


# ---- reading
def test_it_answers_in_order_like_the_world(tmp_path: Path) -> None:
    recording = replay(FILES[0])
    first, second = recording.run_cell("whatever"), recording.run_cell("anything", ranks=[0])
    assert (first.diagnosis, second.diagnosis is None) == (None, False)
    with pytest.raises(UsageError, match="goes on with diagnose, not recover; see line 3"):
        recording.recover()
    recording.diagnose()
    recording.inject()
    recording.recover()
    with pytest.raises(UsageError, match="no run_cell any more"):
        recording.run_cell("more")


def test_a_line_that_was_cut_off_is_left_out_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    text = FILES[0].read_text()
    path = tmp_path / "cut.jsonl"
    path.write_text(text[:-20])
    assert len(replay(path).entries) == len(replay(FILES[0]).entries) - 1
    lines = text.split("\n")
    path.write_text("\n".join([lines[0], lines[1][:-50], *lines[2:]]))
    with pytest.raises(WireError, match="line 2"):
        replay(path)
    path.write_text('{"a": 1}\n')
    with pytest.raises(WireError, match="line 1 is no entry"):
        replay(path)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(WireError, match="no recording"):
        replay(path)
    with pytest.raises(UsageError, match="can't read"):
        replay(tmp_path / "nothing.jsonl")


def test_a_change_of_the_rules_is_told() -> None:
    number, note, diagnosis = next(replay(FILES[0]).diagnoses())
    diagnosis = replace(diagnosis, verdicts=judge(diagnosis.evidence))
    verdict = diagnosis.verdict
    words = replace(diagnosis, verdicts=(replace(verdict, sentence="it was said otherwise"),))
    other = replace(diagnosis, verdicts=(replace(verdict, code="LK099"),))
    changes = Replay([Entry("diagnose", words, note), Entry("diagnose", other), Entry("diagnose", diagnosis)]).rejudge()
    assert [(change.line, change.only_words) for change in changes] == [(1, True), (2, False)]
    assert str(changes[1]).startswith("line 2: LK099 ")
    assert number == 2
