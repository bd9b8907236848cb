"""The page "Add a fault in one file", tried word by word: its file, its command, its call, and the conformance tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..pages import carry_out, copy, run

NAME = "forgotten-broadcast"


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A copy of labkit and its fault tests with the page's file in it, and nothing else changed."""
    copy(root, tmp_path, "labkit", "tests/faults", "tests/conftest.py", "tests/pages.py", "pyproject.toml")
    carry_out(root / "docs" / "adding-a-fault.md", tmp_path)
    return tmp_path


def test_the_command_of_the_page_explains_it(root: Path, tree: Path) -> None:
    assert f"labkit faults {NAME}" in (root / "docs" / "adding-a-fault.md").read_text()
    ran = run(tree, "-c", f"import sys; from labkit.cli import main; sys.exit(main(['faults', '{NAME}']))")
    assert ran.returncode == 0, ran.stderr
    assert "One rank forgets a broadcast" in ran.stdout


@pytest.mark.slow
def test_the_conformance_tests_find_it_by_themselves(tree: Path) -> None:
    ran = run(tree, "-m", "pytest", "-q", "tests/faults/test_fault_catalogue.py", "-k", NAME, "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\d+ passed", ran.stdout), ran.stdout


@pytest.mark.gloo
def test_it_fires_on_live_ranks_as_it_says(tree: Path) -> None:
    ran = run(
        tree,
        "-c",
        "import labkit\n"
        "world = labkit.start(ranks=3, backend='gloo')\n"
        f"result = world.try_fault('{NAME}', 1)\n"
        "verdict, seen = result.diagnosis.verdict, world.injections[-1]\n"
        "assert seen.fired == 1 and verdict.culprits == (1,) and verdict.code in seen.expected, verdict\n"
        "print(world.recover().rung)\n"
        "world.stop()",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "soft"
