"""Recordings of runs, comparisons and sweeps: whole or not at all, the same record again, and it says where it is from."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from labkit.errors import UsageError, WireError
from labkit.plain import dumps
from labkit.schedule import Link
from labkit.schedule.recording import load_record, marked, save_record
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Source, Timing
from labkit.schedule.sweeps import Crossing, Point, Sweep
from labkit.views import to_html, to_text
from labkit.wire import Diagnosis, Evidence, Frame, RankView

POINTS = tuple(
    Point("ring", "all_reduce", 4, size, "float32", 4, "SUM", (size * 1e-9, size * 2e-9)) for size in (1024, 4096, 8192)
)
COMPARISON = Comparison(4, 1024, "float32", (Timing("ring", (2.0, 4.0)), Timing("library", (1.0, 1.0))), "gloo")
PART = RankRun(0, 0.2, (0.1,), 1, 1, 4, 4, agrees=True)
KINDS = [
    Sweep("gloo", 4, POINTS, 2),
    COMPARISON,
    ScheduleRun("ring", "all_reduce", 1, 1, "int32", "SUM", 4, 2, True, 0.2, (PART,), ((1, 1, 4, 4),), backend="gloo"),
    Crossing("ring", "naive", 4, Link(1e-5, 1e-9), 1000.0, None, (COMPARISON,)),
]


@pytest.mark.parametrize("record", KINDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_and_says_where_it_is_from(tmp_path: Path, record) -> None:
    path = save_record(tmp_path / "kept.json", record, "four hosts on one machine", backend="gloo")
    again = load_record(path)
    assert dataclasses.replace(again, source=None) == record
    assert (again.source.backend, again.source.world_size, again.source.about) == (
        "gloo",
        record.world_size,
        "four hosts on one machine",
    )
    for drawn in (str(again), to_text(again), to_html(again)):
        assert "recorded on 2" in drawn
        assert "not run here" in drawn
        assert "four hosts on one machine" in drawn
    assert "recorded" not in str(record) + to_html(record)
    assert os.uname().nodename not in path.read_text()


def test_what_was_recorded_once_keeps_its_source(tmp_path: Path) -> None:
    old = dataclasses.replace(COMPARISON, source=Source("2026-01-31 12:00 UTC", about="first"))
    assert load_record(save_record(tmp_path / "again.json", old, "second")).source == old.source


def test_the_backend_is_the_records_own(tmp_path: Path) -> None:
    for number, record in enumerate((COMPARISON, KINDS[0], KINDS[3])):
        assert load_record(save_record(tmp_path / f"{number}.json", record)).source.backend == "gloo"


def test_folders_of_this_machine_are_cut(tmp_path: Path) -> None:
    stack = (Frame(f"{Path.home()}/project/train.py", 1, "step"),)
    run = dataclasses.replace(KINDS[2], diagnosis=Diagnosis((), Evidence(1, ranks=(RankView(0, stack=stack),))))
    assert load_record(save_record(tmp_path / "run.json", run)).diagnosis.evidence.ranks[0].stack[0].file == "project/train.py"


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "kept.json"

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match=r"can't write .*: No space left"):
            save_record(path, COMPARISON)
    assert list(tmp_path.iterdir()) == []
    save_record(path, COMPARISON)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text()
    with pytest.raises(UsageError, match=r"kept\.json already exists; give another name, or remove it first$"):
        save_record(path, COMPARISON)
    assert path.read_text() == before
    with pytest.raises(UsageError, match="can't write"):
        save_record(tmp_path / "no" / "kept.json", COMPARISON)
    for name in ("a" * 300, "a\0b"):
        with pytest.raises(UsageError, match="can't write"):
            save_record(tmp_path / name, COMPARISON)
    for nameless in ("", ".", "/", 5):
        for call in (lambda name: save_record(name, COMPARISON), load_record):
            with pytest.raises(UsageError, match=f"^{nameless!r} is not a file name; give a name such as compare.json$"):
                call(nameless)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    with pytest.raises(UsageError, match="a Timing can't be marked"):
        marked(COMPARISON.timings[0])
    with pytest.raises(UsageError, match="a int can't be marked"):
        save_record(path, 5)
    with pytest.raises(UsageError, match="can't read"):
        load_record(path)
    for text, says in (
        (dumps(COMPARISON), "is not a recording"),
        ('{"$": "Comparison"}', "damaged Comparison"),
        ("{", "not a record"),
        (dumps(dataclasses.replace(marked(COMPARISON), timings=5)), "a damaged Comparison"),
    ):
        path.write_text(text)
        with pytest.raises(WireError, match=says):
            load_record(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(WireError, match="is not a recording"):
        load_record(path)
