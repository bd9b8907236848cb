"""What holds for every file: length, and that nothing in the repository names one machine or one package index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 400
SKIPPED = {
    ".git",
    ".venv",
    ".tools",
    "build",
    "my-labs",
    ".ipynb_checkpoints",
    "dist",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
}
TEXT = {".py", ".md", ".toml", ".txt", ".ipynb", ".js", ".css", ".json", ".cfg", ".sh", ".yml", ".yaml", ".html", ""}
ONE_MACHINE = re.compile("/wor" + "k/|/roo" + "t/")


def texts(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in TEXT and not SKIPPED & set(path.relative_to(root).parts):
            yield path


def test_no_file_is_too_long(root: Path) -> None:
    lengths = {path.relative_to(root).as_posix(): len(path.read_text().splitlines()) for path in (root / "labkit").rglob("*.py")}
    assert {file: lines for file, lines in lengths.items() if lines > LIMIT} == {}


def test_no_file_names_a_folder_of_one_machine(root: Path) -> None:
    found = [f"{path.relative_to(root)}: {hit[0]}" for path in texts(root) if (hit := ONE_MACHINE.search(path.read_text()))]
    assert found == []


@pytest.mark.parametrize("text", ["/roo" + "t/.venv", "see /wor" + "k/main"])
def test_a_folder_of_one_machine_is_caught(text: str) -> None:
    assert ONE_MACHINE.search(text)


def test_pins_hold_every_package_by_version_and_hash_and_no_address(root: Path) -> None:
    files = sorted((root / "requirements").glob("*.txt"))
    assert [file.name for file in files] == ["bench.txt", "constraints.txt", "docs.txt", "tools.txt"]
    for file in files:
        text = file.read_text()
        assert "://" not in text
        assert "--index" not in text
        pins = re.findall(r"^([\w.-]+)==(\S+)[^\n]*\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", text, flags=re.M)
        assert len(pins) == len(re.findall(r"^\S", text, flags=re.M))


def test_every_dependency_is_pinned(root: Path) -> None:
    project = (root / "pyproject.toml").read_text()
    pinned = {
        pin for file in (root / "requirements").glob("*.txt") for pin in re.findall(r"^([\w.-]+)==", file.read_text(), flags=re.M)
    }
    asked = set(re.findall(r'^  "([a-z][\w.-]*)[>=<]', project, flags=re.M)) | {"uv"}
    assert {"torch", "ipyparallel", "pytest", "sphinx"} <= asked
    assert asked <= pinned


def test_no_lock_file_with_addresses_is_kept(root: Path) -> None:
    assert [path.name for name in ("uv.lock", "package-lock.json", "poetry.lock") for path in root.glob(f"**/{name}")] == []
