"""Labs are thin and clean: short cells, nothing stored that a run would write anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LABS = Path(__file__).resolve().parent.parent / "labs"
SHORT, LONG = 5, 20
LONG_TAGS = {"rank-code", "exercise"}


def untidy(notebook: dict[str, Any]) -> list[str]:
    """What is wrong with a lab's cells, as sentences."""
    found = []
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "code":
            continue
        lines = [line for line in "".join(cell["source"]).splitlines() if line.strip()]
        limit = LONG if LONG_TAGS & set(cell.get("metadata", {}).get("tags", [])) else SHORT
        if len(lines) > limit:
            found.append(f"cell {number} has {len(lines)} lines, more than {limit}")
        if cell.get("outputs") or cell.get("execution_count"):
            found.append(f"cell {number} keeps what a run wrote")
    return found


@pytest.mark.parametrize("path", sorted(LABS.rglob("*.ipynb")) or [None], ids=lambda path: path.name if path else "none-yet")
def test_a_lab_is_thin_and_clean(path: Path | None) -> None:
    if path is None:
        pytest.skip("no lab is there yet")
    assert untidy(json.loads(path.read_text())) == []


def code(num_lines: int, *tags: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": ["x\n"] * num_lines, "metadata": {"tags": list(tags)}, **more}


@pytest.mark.parametrize(
    ("cell", "num_found"),
    [
        (code(5), 0),
        (code(6), 1),
        (code(20, "rank-code"), 0),
        (code(21, "exercise"), 1),
        (code(6, "other"), 1),
        (code(1, outputs=[{}]), 1),
        (code(1, execution_count=3), 1),
        ({"cell_type": "markdown", "source": ["x\n"] * 99}, 0),
    ],
)
def test_what_is_untidy_is_caught(cell: dict[str, Any], num_found: int) -> None:
    assert len(untidy({"cells": [cell]})) == num_found
