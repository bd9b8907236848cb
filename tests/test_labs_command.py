"""`labkit labs`: what it lists, what it writes, and that a learner's work is never written over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labkit import cli, labs
from labkit.errors import LabkitError, UnknownName, UsageError
from labkit.labs import BEGIN, GUESS, RANK_STUB, STUB, has_solution, source_of

NAMES = [path.name for path in sorted(labs.labs_folder().glob("[0-9]*.ipynb"))]


def whats(copies: tuple[labs.Copy, ...]) -> dict[str, str]:
    return {copy.path.name: copy.what for copy in copies}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of labs that may be changed."""
    shutil.copytree(labs.labs_folder(), tmp_path / "source")
    return tmp_path / "source"


def test_the_list_has_every_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(NAMES)
    assert lines[0].split("  ")[:2] == ["00", "Meet the ranks"]
    assert lines[0].endswith(" 15 minutes, on 2 ranks or more")


def test_copies_have_no_solution_and_all_else(tmp_path: Path) -> None:
    copies = labs.copy_labs(tmp_path / "a" / "mine", labs.find_labs())
    assert whats(copies) == dict.fromkeys([*NAMES, labs.INDEX], "wrote")
    for lab in labs.find_labs():
        ours = json.loads(lab.path.read_text())
        theirs = json.loads((tmp_path / "a" / "mine" / lab.path.name).read_text())
        assert theirs["metadata"] == ours["metadata"]
        assert [cell["id"] for cell in theirs["cells"]] == [cell["id"] for cell in ours["cells"]]
        for mine, yours in zip(ours["cells"], theirs["cells"], strict=True):
            if has_solution(mine):
                assert any(stub in source_of(yours) for stub in (STUB, GUESS, RANK_STUB))
                assert "your turn" in source_of(yours)
                assert BEGIN not in source_of(yours)
            else:
                assert mine == yours


def test_what_was_changed_stays_and_the_rest_follows(source: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    there = labs.find_labs(source)
    labs.copy_labs(mine, there, source)
    (mine / NAMES[0]).write_text("my own work")
    assert whats(labs.copy_labs(mine, there, source))[NAMES[0]] == "kept"
    for name in NAMES[:2]:  # a newer labkit has other labs
        notebook = json.loads((source / name).read_text())
        notebook["cells"][0]["source"] = "# Another beginning"
        (source / name).write_text(json.dumps(notebook))
    assert whats(labs.copy_labs(mine, there, source)) == {
        NAMES[0]: "kept",
        NAMES[1]: "updated",
        **dict.fromkeys([*NAMES[2:], labs.INDEX], "as it was"),
    }
    assert (mine / NAMES[0]).read_text() == "my own work"
    assert "Another beginning" in (mine / NAMES[1]).read_text()


@pytest.mark.parametrize("note", ["", "[]", "{", '{"x": 1}'])
def test_without_a_readable_note_nothing_is_written_over(tmp_path: Path, note: str) -> None:
    (tmp_path / labs.NOTED).write_text(note)
    (tmp_path / NAMES[0]).write_text("older work")
    assert whats(labs.copy_labs(tmp_path, labs.find_labs()))[NAMES[0]] == "kept"
    assert (tmp_path / NAMES[0]).read_text() == "older work"


def test_a_deleted_copy_is_written_again(tmp_path: Path) -> None:
    labs.copy_labs(tmp_path, labs.find_labs())
    (tmp_path / NAMES[0]).unlink()
    assert whats(labs.copy_labs(tmp_path, labs.find_labs()))[NAMES[0]] == "wrote"


def test_one_lab_comes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs", "start", str(tmp_path / "mine"), "--lab", "9"]) == 0
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [labs.NOTED, "09-when-it-hangs.ipynb"]
    assert capsys.readouterr().out == f"wrote      {tmp_path / 'mine' / '09-when-it-hangs.ipynb'}\n"


def test_a_kept_file_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAMES[0]).write_text("mine")
    assert cli.main(["labs", "start", str(tmp_path), "--lab", NAMES[0]]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"kept       {tmp_path / NAMES[0]}",
        "kept: you have changed it; for a fresh copy name another folder, or move yours away",
    ]


@pytest.mark.parametrize("name", ["9", "09", "09-when-it-hangs", "09-when-it-hangs.ipynb"])
def test_a_lab_has_several_names(name: str) -> None:
    assert labs.choose(labs.find_labs(), name).path.name == "09-when-it-hangs.ipynb"


@pytest.mark.parametrize(("name", "near"), [("77", "there are: 00"), ("09-when-it-hags", "did you mean '09-when-it-hangs'")])
def test_a_lab_that_is_not_there(name: str, near: str) -> None:
    with pytest.raises(UnknownName, match=near):
        labs.choose(labs.find_labs(), name)


def test_folders_that_are_none_of_yours(tmp_path: Path) -> None:
    there = labs.find_labs()
    with pytest.raises(UsageError, match="holds the labs themselves"):
        labs.copy_labs(labs.labs_folder(), there)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        labs.copy_labs(tmp_path / "file", there)
    with pytest.raises(UsageError, match="can't write in"):
        labs.copy_labs(tmp_path / "file" / "below", there)


def test_an_installation_without_labs_says_so(tmp_path: Path) -> None:
    with pytest.raises(LabkitError, match="has no labs; use a checkout"):
        labs.labs_folder([tmp_path])


@pytest.mark.parametrize("arguments", [["start"], ["strat"], ["start", "x", "--lab"]])
def test_a_mistake_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["labs", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("labkit: ")
    assert said.err.count("\n") == 1
