"""The page "Add a rule in one file", tried word by word: its rule, its case, and the tests of all rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..pages import carry_out, copy, run


@pytest.mark.slow
def test_the_tests_of_all_rules_find_it_by_themselves(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "tests/diagnosis", "tests/conftest.py", "tests/pages.py", "pyproject.toml")
    written = carry_out(root / "docs" / "adding-a-rule.md", tree)
    assert written == ["labkit/diagnosis/rules/lk015_out_of_memory.py", "tests/diagnosis/corpus.py"]
    ran = run(tree, "-m", "pytest", "-v", "tests/diagnosis/test_rules.py", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(re.findall(r"\[(?:LK015|out of memory)\] PASSED", ran.stdout)) == 5, ran.stdout


@pytest.mark.slow
def test_the_rule_is_written_as_the_project_writes(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "tests/diagnosis", "pyproject.toml")
    written = carry_out(root / "docs" / "adding-a-rule.md", tree)
    for command in (("ruff", "check", *written), ("mypy",)):
        checked = run(tree, "-m", *command)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_without_its_priority_another_rule_claims_the_same_evidence(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "tests/diagnosis", "tests/conftest.py", "tests/pages.py", "pyproject.toml")
    rule, _ = carry_out(root / "docs" / "adding-a-rule.md", tree)
    (tree / rule).write_text((tree / rule).read_text().replace("priority = 40", "priority = 50"))
    ran = run(tree, "-m", "pytest", "-q", "tests/diagnosis/test_rules.py", "-k", "memory", "-p", "no:cacheprovider")
    assert "['LK003', 'LK015'] == ['LK015']" in ran.stdout, ran.stdout
