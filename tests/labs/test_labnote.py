"""The handle of a lab: predictions, checks, and a record file that is whole at every moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.driver import labnote
from labkit.errors import UnknownName, UsageError
from labkit.exercises import NotYet
from labkit.labrecord import LabRecord
from labkit.wire import RankCard, WorldStatus, loads

NAME = "01-every-rank-the-same"


def world(*pids: int) -> WorldStatus:
    cards = tuple(RankCard(rank, pid, "cpu", "gloo", "idle") for rank, pid in enumerate(pids))
    return WorldStatus(len(pids), "gloo", "raw", 1, "fork", cards)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LABKIT_RECORD", str(tmp_path / "records"))
    yield tmp_path / "records"
    labnote.DESK.lab = None


def read(folder: Path) -> LabRecord:
    record = loads((folder / f"{NAME}.json").read_text())
    assert isinstance(record, LabRecord)
    return record


def test_the_file_is_there_from_the_start_and_follows(folder: Path) -> None:
    lab = labnote.lab(NAME)
    assert read(folder).checks == ()
    assert "01/sum" in read(folder).open_checks
    assert "versions" in json.loads((folder / f"{NAME}.json").read_text())
    lab.check("01/processes", world(1, 2))
    assert [check.name for check in read(folder).checks] == ["01/processes"]
    assert not read(folder).finished
    assert lab.done() == read(folder)
    assert read(folder).finished
    assert [path.name for path in folder.iterdir()] == [f"{NAME}.json"]


def test_without_the_variable_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABKIT_RECORD")
    labnote.lab(NAME).check("01/processes", world(1, 2))
    assert not folder.exists()


def test_a_wrong_answer_is_recorded_and_raised_in_one_line(folder: Path) -> None:
    lab = labnote.lab(NAME)
    with pytest.raises(NotYet, match="2 ranks share 1 pids; start") as caught:
        lab.check("01/processes", world(1, 1))
    assert len(caught.value._render_traceback_()) == 1
    assert [(check.passed, check.num_tries) for check in read(folder).checks] == [(False, 1)]
    lab.check("01/processes", world(1, 2))
    assert [(check.passed, check.num_tries) for check in read(folder).checks] == [(True, 2)]


def test_a_guess_comes_back_with_the_check(folder: Path) -> None:
    lab = labnote.lab(NAME)
    assert repr(lab.predict("01/processes", 3)) == "01/processes: you say 3. Now look."
    assert repr(lab.check("01/processes", world(1, 2))) == "✓ 01/processes: 2 ranks are 2 processes on 1 device. You said 3."
    assert read(folder).guesses[0].guess == 3


@pytest.mark.parametrize("guess", [None, ...])
def test_no_guess_is_no_guess(folder: Path, guess: object) -> None:
    with pytest.raises(NotYet, match="no prediction yet"):
        labnote.lab(NAME).predict("01/sum", guess)


@pytest.mark.parametrize("name", ["", "ring", "01", "../01-ring", "01-Ring", "1-ring"])
def test_a_name_that_is_no_labs(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a lab"):
        labnote.lab(name)


def test_a_misspelt_check_is_answered_with_the_nearest(folder: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean '01/processes'"):
        labnote.lab(NAME).check("01/proceses", world(1, 2))


def test_a_folder_that_can_not_be_written_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_RECORD", str(tmp_path / "file" / "records"))
    with pytest.raises(UsageError, match="can't write in"):
        labnote.lab(NAME)


def test_a_folder_that_goes_away_does_not_stop_the_lab(folder: Path) -> None:
    lab = labnote.lab(NAME)
    (folder / f"{NAME}.json").unlink()
    folder.rmdir()
    folder.write_text("")
    assert lab.check("01/processes", world(1, 2)).passed
