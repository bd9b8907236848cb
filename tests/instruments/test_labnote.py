"""The handle of a lab: predictions, checks, and a record file that is whole at every moment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from labkit.errors import UnknownName, UsageError
from labkit.exercises import NotYet
from labkit.instruments import labnote
from labkit.labrecord import Guess, LabRecord, Told
from labkit.wire import RankCard, TensorSample, TensorTable, WorldStatus, loads

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
    assert repr(lab.predict("01/processes", 3)) == "Guess saved: 3. Run the next cell."
    assert (
        repr(lab.check("01/processes", world(1, 2))) == "✓ 01/processes: 2 ranks are 2 processes on 1 device.\n  You guessed 3."
    )
    assert read(folder).guesses == (Guess("01/processes", 3),)


def test_a_check_that_has_an_answer_says_how_the_guess_did(folder: Path) -> None:
    lab = labnote.lab(NAME)
    lab.predict("01/dtypes", np.int64(3))
    assert repr(lab.check("01/dtypes", {0: 2, 1: 2})).splitlines() == [
        "✓ 01/dtypes: AVG works for 2 of 5 types.",
        "  You guessed 3. It was 2 types: too large by a factor of 1.5.",
    ]
    record = read(folder)
    assert record.guesses == (
        Guess("01/dtypes", 3, Told(2, "types", "off", "You guessed 3. It was 2 types: too large by a factor of 1.5.")),
    )
    assert record.checks[0].says == "AVG works for 2 of 5 types."
    assert record.checks[0].guess == "You guessed 3. It was 2 types: too large by a factor of 1.5."
    lab.predict("01/dtypes", 2)
    assert lab.done().predictions == {"not looked at": ("01/dtypes",)}
    lab.check("01/dtypes", {0: 2, 1: 2})
    assert lab.done().predictions == {"right": ("01/dtypes",)}
    assert repr(lab.done()).splitlines()[-1] == "  predictions right: 01/dtypes"


def test_a_check_that_is_not_passed_says_nothing_of_the_guess(folder: Path) -> None:
    lab = labnote.lab(NAME)
    lab.predict("01/dtypes", 3)
    with pytest.raises(NotYet, match="the ranks count"):
        lab.check("01/dtypes", {0: 2, 1: 3})
    assert (read(folder).guesses[0].told, read(folder).checks[0].guess) == (None, "")


def test_a_prediction_is_answered_by_a_check_of_another_name(folder: Path) -> None:
    lab = labnote.lab(NAME)
    lab.predict("01/ending", "error")
    table = TensorTable("x", tuple(TensorSample(rank, "x", (1,), "float32", "cpu", 4, (7.0,), (0,)) for rank in (0, 1)))
    seen = lab.check("01/again", table, dataclasses.replace(world(1, 2), generation=2))
    assert seen.guess == "01/ending: You guessed 'error'. It was 'hang'."
    assert lab.done().predictions == {"off": ("01/ending",)}
    for generation, mode, ending in ((1, "raw", "well"), (1, "safe", "error")):
        lab.predict("01/ending", ending)
        lab.check("01/again", table, dataclasses.replace(world(1, 2), generation=generation, mode=mode))
        assert lab.done().predictions == {"right": ("01/ending",)}


@pytest.mark.parametrize(
    ("guess", "what"),
    [(None, " has no prediction yet"), (..., " has no prediction yet"), ("  ", ": an empty text is no prediction"),
     (len, ": a function is no prediction"), (int, ": a class is no prediction"), (dataclasses, ": a module is no prediction")],
)  # fmt: skip
def test_no_guess_is_no_guess(folder: Path, guess: object, what: str) -> None:
    with pytest.raises(NotYet) as caught:
        labnote.lab(NAME).predict("01/suspicious", guess)
    assert caught.value.what == f"01/suspicious{what}"
    assert len(caught.value._render_traceback_()) == 1


@pytest.mark.parametrize("guess", [{1, 2}, 2 + 1j, pytest.param(10**5000, id="huge"), np.ones(100), [object()], float("nan")])
def test_a_strange_guess_is_kept_and_its_file_is_whole(folder: Path, guess: object) -> None:
    lab = labnote.lab(NAME)
    assert "Guess saved: " in repr(lab.predict("01/dtypes", guess))
    assert ". It was 2 types" in lab.check("01/dtypes", {0: 2}).guess
    assert read(folder).guesses[0].told is not None


@pytest.mark.parametrize("name", ["", "ring", "01", "../01-ring", "01-Ring", "1-ring"])
def test_a_name_that_is_no_labs(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a lab"):
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
