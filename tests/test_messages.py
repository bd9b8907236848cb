"""Every error that labkit makes names the next step: swept over the source, so that none can be forgotten."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from labkit import errors

LABKIT = Path(__file__).resolve().parent.parent / "labkit"
OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.LabkitError)}


def without_next_step(source: str) -> list[str]:
    """Lines where an error of our tree is made without a `hint`, or with an empty one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", getattr(node.func, "id", "")) not in OURS:
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        hint = given.get("hint", given.get(None))  # `**facts` may carry it
        if hint is None or (isinstance(hint, ast.Constant) and not str(hint.value or "").strip()):
            found.append(f"line {node.lineno}: {ast.unparse(node)[:80]}")
    return found


def raised_with_assert_text(source: str) -> list[str]:
    """Asserts with a message: those were meant for a user."""
    return [f"line {node.lineno}" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert) and node.msg]


FILES = sorted(path.relative_to(LABKIT).as_posix() for path in LABKIT.rglob("*.py"))


def test_every_error_names_the_next_step() -> None:
    assert [(file, found) for file in FILES if (found := without_next_step((LABKIT / file).read_text()))] == []


def test_asserts_do_not_speak_to_users() -> None:
    files = [file for file in FILES if not file.startswith("exercises/") and file != "testing.py"]
    assert [(file, found) for file in files if (found := raised_with_assert_text((LABKIT / file).read_text()))] == []


@pytest.mark.parametrize(
    "line",
    [
        "raise RankDead('rank 2 is gone')",
        "raise errors.RankDead('rank 2 is gone', ranks=(2,))",
        "error = UsageError('no', hint='')",
        "raise WireError('no', hint='  ') from None",
    ],
)
def test_a_missing_next_step_is_caught(line: str) -> None:
    assert len(without_next_step(line)) == 1


@pytest.mark.parametrize(
    "line",
    ["raise RankDead('gone', hint='call world.recover()')", "raise RankDead(what, **facts)", "raise ValueError('ours to see')"],
)
def test_a_good_message_passes(line: str) -> None:
    assert without_next_step(line) == []
