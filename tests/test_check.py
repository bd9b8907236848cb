"""Linters, types and documentation as tests, so that CI has one summary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def run(root: Path, *command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n" + done.stdout[-6000:] + done.stderr[-6000:]


def test_ruff_finds_nothing(root: Path) -> None:
    run(root, "ruff", "check", "--quiet", ".")


def test_ruff_would_lay_out_nothing_anew(root: Path) -> None:
    run(root, "ruff", "format", "--check", "--quiet", ".")


def test_mypy_finds_nothing(root: Path) -> None:
    run(root, "mypy")
