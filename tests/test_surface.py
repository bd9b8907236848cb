"""The public names: few, lazy, documented, and the same in every place that states them."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import labkit

PUBLIC = {"__version__", "current", "doctor", "errors", "lab", "load_ipython_extension", "start", "torchrun"}
HOMES = {
    "start": "notebook",
    "current": "notebook",
    "doctor": "doctor",
    "load_ipython_extension": "notebook",
    "lab": "instruments.labnote",
    "torchrun": "instruments.scripts",
}


def exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def test_the_public_names_are_exactly_these() -> None:
    assert set(labkit.__all__) == PUBLIC
    assert set(dir(labkit)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_a_public_name_arrives_and_is_documented(name: str) -> None:
    home = HOMES.get(name, name)
    if not exists(f"labkit.{home}"):
        pytest.skip(f"labkit.{home} is not there yet")
    value = getattr(labkit, name)
    assert (value.__doc__ or "").strip()
    assert callable(value) or name == "errors"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'strat'"):
        labkit.strat  # noqa: B018


def test_doctor_stays_a_function_when_the_package_of_that_name_is_imported() -> None:
    if not exists("labkit.doctor"):
        pytest.skip("labkit.doctor is not there yet")
    importlib.import_module("labkit.doctor")
    assert callable(labkit.doctor)


def test_the_version_is_one(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert labkit.__version__ == project["version"]


def test_the_changelog_opens_with_what_is_unreleased_or_this_version(root: Path) -> None:
    first = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), flags=re.M)
    assert first
    assert first[1].split()[0] in {"Unreleased", labkit.__version__}


def test_make_commands_in_the_documentation_exist(root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), flags=re.M))
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), flags=re.M)}
    assert {"lab", "test"} <= named <= targets


def test_links_between_pages_lead_somewhere(root: Path) -> None:
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(root)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
