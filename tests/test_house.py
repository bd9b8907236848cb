"""What holds for every file: size, and that nothing in the repository names one machine or one package index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.fixture
def size(root: Path) -> ModuleType:
    """scripts/size, which has no suffix."""
    module = ModuleType("size")
    module.__file__ = str(root / "scripts" / "size")
    SourceFileLoader("size", module.__file__).exec_module(module)
    return module


@pytest.mark.parametrize("name", ["lines", "files", "longest"])
def test_labkit_stays_as_small_as_it_has_become(size: ModuleType, name: str) -> None:
    found = size.measure()[name]
    assert found <= size.LIMITS[name], f"{name}: shorten it; scripts/size shows the limits"
    assert size.LIMITS[name] >= size.AIM[name]


def test_the_size_is_counted_and_shown_beside_limit_and_aim(size: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "labkit").mkdir()
    for name, lines in (("a", 1), ("b", 10), ("c", 100)):
        (tmp_path / "labkit" / f"{name}.py").write_text("x = 1\n" * lines)
    found = size.measure(tmp_path)
    assert found == {"lines": 111, "files": 3, "longest": 100, "median": 10}
    assert re.search(r"lines +111 +limit +[\d,]+ +aim +24,000", size.report(found))


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
