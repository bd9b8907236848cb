"""The examples in the docstrings of the benchmarks run as they are written."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent.parent / "benchmarks"
NAMES = [
    ".".join(path.relative_to(HERE.parent).with_suffix("").parts) for path in HERE.rglob("*.py") if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_examples(name: str) -> None:
    assert not doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed
