"""The wheel holds everything that labkit needs at run time, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_a_wheel_holds_the_whole_package(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("labkit-")}
    here = {path.relative_to(root).as_posix() for path in (root / "labkit").rglob("*") if path.is_file()}
    labs = {f"labkit/_labs/{path.name}" for path in (root / "labs").iterdir() if path.is_file()}
    assert packed == {name for name in here if "__pycache__" not in name} | labs
