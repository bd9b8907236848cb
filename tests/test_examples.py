"""The examples in docstrings of everything that needs no torch run as they are written."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

LABKIT = Path(__file__).resolve().parent.parent / "labkit"
IN_RANKS = "rank"  # needs torch; its own tests look after it


def modules() -> list[str]:
    found = []
    for path in sorted(LABKIT.rglob("*.py")):
        parts = path.relative_to(LABKIT.parent).with_suffix("").parts
        if parts[1] != IN_RANKS and ">>>" in path.read_text():
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not result.failed
