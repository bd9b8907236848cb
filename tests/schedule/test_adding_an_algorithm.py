"""The page "Add an algorithm in one file", tried word by word: its file, and the tests of all algorithms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..pages import carry_out, copy, run

PARTS = ("labkit", "docs", "tests/schedule", "tests/conftest.py", "tests/pages.py", "pyproject.toml")


@pytest.mark.slow
def test_the_tests_of_all_algorithms_find_it_by_themselves(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, *PARTS)
    assert carry_out(root / "docs" / "adding-an-algorithm.md", tree) == ["labkit/schedule/algorithms/flat_broadcast.py"]
    tests = ["tests/schedule/test_conformance.py", "tests/schedule/test_page.py"]
    options = ["-k", "flat-broadcast or table or there_is", "-m", "not gloo", "-p", "no:cacheprovider"]
    ran = run(tree, "-m", "pytest", "-v", *tests, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(re.findall(r"flat-broadcast.*PASSED", ran.stdout)) > 50, ran.stdout


@pytest.mark.slow
def test_a_wrong_formula_in_it_is_found(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, *PARTS)
    (written,) = carry_out(root / "docs" / "adding-an-algorithm.md", tree)
    right, wrong = "steps=lambda world_size, root: world_size - 1", "steps=lambda world_size, root: world_size"
    (tree / written).write_text((tree / written).read_text().replace(right, wrong))
    tests = ["tests/schedule/test_conformance.py", "-k", "flat-broadcast", "-x", "-p", "no:cacheprovider"]
    ran = run(tree, "-m", "pytest", "-q", *tests)
    assert ran.returncode == 1, ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_algorithm_is_written_as_the_project_writes(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "pyproject.toml")
    written = carry_out(root / "docs" / "adding-an-algorithm.md", tree)
    for command in (("ruff", "check", *written), ("ruff", "format", "--check", *written), ("mypy", *written)):
        checked = run(tree, "-m", *command)
        assert checked.returncode == 0, checked.stdout
