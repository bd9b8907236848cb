"""What is installed against what pyproject asks for, read without importing any of it."""

from __future__ import annotations

import importlib.metadata
import operator
import re
import tomllib
from pathlib import Path

from .facts import numbers

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")
_COMPARE = {"==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_CLAUSE = re.compile(r"(~=|==|!=|<=|>=|<|>)\s*([\w.*+!-]+)$")


def installed(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def labkit_version() -> str:
    """labkit's own version; in a checkout that is not installed, the one in pyproject."""
    return installed("labkit") or str(_project().get("version", "unknown"))


def wanted() -> tuple[str, ...]:
    """Requirement lines of labkit: of the checkout this code runs from if it is one, else of the installed distribution."""
    lines = _project().get("dependencies")
    if isinstance(lines, list):
        return tuple(str(line) for line in lines)
    try:
        return tuple(importlib.metadata.requires("labkit") or ())
    except importlib.metadata.PackageNotFoundError:
        return ()


def _project() -> dict[str, object]:
    path = Path(__file__).resolve().parents[2] / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return {}
    return project if isinstance(project, dict) and project.get("name") == "labkit" else {}


def parse_requirement(line: str) -> tuple[str, str] | None:
    """Name and version range; None for what does not apply to every installation (it has a marker).

    >>> parse_requirement("torch>=2.15,<2.16"), parse_requirement('pytest>=9; extra == "dev"')
    (('torch', '>=2.15,<2.16'), None)
    """
    found = _REQUIREMENT.match(line)
    return (found[1], found[2].strip()) if found and not found[3] else None


def fits(version: str, wanted: str) -> bool:
    """Whether a version lies in a range; local parts (+cu132) and pre-release marks are not looked at.

    >>> fits("2.15.0+cu132", ">=2.15,<2.16"), fits("2.16.1", ">=2.15,<2.16"), fits("9.1", "~=9.2")
    (True, False, False)
    """
    return all(_fits(numbers(version), clause.strip()) for clause in wanted.split(",") if clause.strip())


def _fits(have: tuple[int, ...], clause: str) -> bool:
    found = _CLAUSE.match(clause)
    if found is None:
        return True
    sign, text = found[1], found[2]
    want = numbers(text)
    if text.endswith(".*"):
        return (have[: len(want)] == want) == (sign == "==")
    size = max(len(have), len(want))
    left, right = have + (0,) * (size - len(have)), want + (0,) * (size - len(want))
    if sign == "~=":
        return left >= right and have[: len(want) - 1] == want[:-1]
    return bool(_COMPARE[sign](left, right))
