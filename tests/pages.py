"""The pages that tell how to add something, carried out word by word on a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# "Write this to `path`:" or "Append this to `path`:", and the block of code that follows
STEP = re.compile(r"(Write|Append) this to `([\w./-]+)`:\n\n```(?:python|json)\n(.*?)```", flags=re.S)
LEFT_OUT = (
    ".git",
    ".venv",
    ".tools",
    "build",
    "dist",
    "node_modules",
    "*_cache",
    ".hypothesis",
    "__pycache__",
    ".ipynb_checkpoints",
)


def copy(root: Path, to: Path, *parts: str) -> Path:
    """Copy these parts of the tree, or all of it, without what is built or cached."""
    for path in [root / part for part in parts] or sorted(root.iterdir()):
        target = to / path.relative_to(root)
        if path.is_dir() and not any(path.match(name) for name in LEFT_OUT):
            shutil.copytree(path, target, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        elif path.is_file() and path.name != ".git":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return to


def carry_out(page: Path, tree: Path) -> list[str]:
    """Do in `tree` what the page says; the files it wrote or appended to."""
    steps = STEP.findall(page.read_text())
    assert steps, f"{page.name} tells to write nothing"
    for verb, where, source in steps:
        path = tree / where
        assert path.exists() == (verb == "Append"), f"{page.name}: {verb} to {where}"
        with path.open("a") as file:
            file.write(source)
    return [where for _, where, _ in steps]


def run(tree: Path, *command: str, limit_s: float = 100) -> subprocess.CompletedProcess[str]:
    """Python in the copy, with the copy's labkit."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "LABKIT_RUN_ROOT": str(tree / "runs")},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
