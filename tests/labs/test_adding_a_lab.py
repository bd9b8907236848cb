"""The page "Add a lab in one notebook", tried word by word on a copy of the whole tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..pages import carry_out, copy, run

LAB = "98-the-slowest-rank-decides"


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A copy of the tree with the page's two files in it, and nothing else changed."""
    made = copy(root, tmp_path, "labkit", "labs", "tests", "docs", "pyproject.toml")
    assert len(carry_out(root / "docs" / "adding-a-lab.md", made)) == 2
    return made


@pytest.mark.slow
def test_the_index_the_command_and_the_style_tests_find_it(tree: Path) -> None:
    made = run(tree, "-c", "from labkit import labs; labs.write_index(labs.labs_folder())")
    assert made.returncode == 0, made.stderr
    assert f"[The slowest rank decides]({LAB}.ipynb)" in (tree / "labs" / "index.ipynb").read_text()
    assert "The slowest rank decides" in run(tree, "-m", "labkit.cli", "labs").stdout
    tests = ["tests/labs/test_style.py", "tests/test_notebooks.py", "tests/test_labs_command.py"]
    ran = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_without_the_index_the_style_tests_say_so(tree: Path) -> None:
    ran = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/labs/test_style.py", "-k", "index")
    assert ran.returncode == 1
    assert "make index" in ran.stdout


@pytest.mark.labs
def test_it_runs_on_live_ranks_and_its_record_proves_it(tree: Path) -> None:
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "labs", "tests/labs/test_labs_run.py", "-k", f"{LAB}-2"]
    ran = run(tree, *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\b1 passed", ran.stdout), ran.stdout
