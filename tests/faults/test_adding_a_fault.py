"""The page "Add a fault in one file", tried word by word: its file, its command, its call, and the conformance tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAME = "forgotten-broadcast"


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A copy of labkit and its fault tests with the page's file in it, and nothing else changed."""
    page = (root / "docs" / "adding-a-fault.md").read_text()
    where = re.search(r"Write this to `(labkit/faults/\w+\.py)`", page)
    source = re.search(r"```python\n(.*?)```", page, flags=re.S)
    assert where is not None
    assert source is not None
    for part in ("labkit", "tests/faults"):
        shutil.copytree(root / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(root / file, tmp_path / file)
    (tmp_path / where[1]).write_text(source[1])
    return tmp_path


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "LABKIT_RUN_ROOT": str(tree / "runs")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_command_of_the_page_explains_it(root: Path, tree: Path) -> None:
    assert f"labkit faults {NAME}" in (root / "docs" / "adding-a-fault.md").read_text()
    ran = run(tree, "-c", f"import sys; from labkit.cli import main; sys.exit(main(['faults', '{NAME}']))")
    assert ran.returncode == 0, ran.stderr
    assert "One rank forgets a broadcast" in ran.stdout


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
