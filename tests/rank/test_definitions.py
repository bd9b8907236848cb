"""Definitions from the source of cells: they are made again, and nothing else of a cell runs."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from labkit.rank.definitions import bound, definitions, once_assigned, replay

DEFINES = {
    "import torch.nn as nn": ["nn"],
    "import os.path, sys": ["os", "sys"],
    "from math import pi as p, e": ["p", "e"],
    "def f(x=1, *, y=None): return x": ["f"],
    "async def f(): pass": ["f"],
    "@torch.no_grad()\ndef f(): pass": ["f"],
    "class A(B):\n    'text'\n    x: int = 3\n    def f(self): return launch()": ["A"],
    "@dataclass\nclass A:\n    x: list = field(default_factory=list)": ["A"],
    "N = 4": ["N"],
    "SHAPE = (2, -3)": ["SHAPE"],
}
LEAVES_OUT = [
    "x = torch.ones(3)", "print(1)", "from math import *", "for i in range(3): pass", "items = []", "dist.barrier()",
    "def f(x=dist.barrier()): pass", "@register(launch())\ndef f(): pass", "class A:\n    x = launch()",
    "class A:\n    print(1)", "class A(make()): pass", "with open('x') as f: import os", "x = [i for i in y]", "1 +",
]  # fmt: skip


@pytest.mark.parametrize("code", DEFINES)
def test_a_definition_is_known(code: str) -> None:
    found = definitions(code, once_assigned([code]))
    assert [name for each in found for name in bound(each)] == DEFINES[code]


@pytest.mark.parametrize("code", LEAVES_OUT)
def test_what_does_something_is_left_out(code: str) -> None:
    assert definitions(code, once_assigned([code])) == []


def test_a_constant_that_is_assigned_twice_may_be_anything_now() -> None:
    assert once_assigned(["n = 1; k = 2", "def f():\n    global n\n    n = 3", "for k in range(3): pass", "m = 4"]) == {"f", "m"}
    assert "i" not in once_assigned(["i = 0", "i += 1"])


def cells(*codes: str) -> list[tuple[int, str, bool]]:
    return [(number, code, True) for number, code in enumerate(codes, start=1)]


def test_only_what_is_missing_is_made() -> None:
    namespace: dict[str, Any] = {"f": "restored"}
    made, failed = replay(cells("import os\ndef f(): return 1\nN = 3\nundefined()"), namespace, after=1)
    assert (made, failed) == (["os", "N"], {})
    assert (namespace["f"], namespace["N"]) == ("restored", 3)


def test_a_function_of_a_later_cell_is_newer_than_the_restored_one() -> None:
    namespace: dict[str, Any] = {"f": "restored"}
    made, _ = replay([(1, "def f(): return 1", True), (2, "def f(): return 2\nn = 5", False)], namespace, after=1)
    assert made == ["f"]
    assert namespace["f"]() == 2
    assert "n" not in namespace, "the cell may have ended before that line"


def test_a_definition_that_raises_is_told_and_the_next_one_has_its_turn() -> None:
    namespace: dict[str, Any] = {}
    made, failed = replay(cells("import no_such_module\nclass A(Missing): pass\nimport os"), namespace)
    assert made == ["os"]
    assert failed["no_such_module"].startswith("its definition raised ModuleNotFoundError")
    assert failed["A"].startswith("its definition raised NameError")


def test_tracebacks_have_their_lines() -> None:
    import linecache

    replay(cells("def f():\n    return 1"), {})
    assert linecache.getline("cell 1", 2) == "    return 1\n"


def test_the_names_of_a_statement() -> None:
    assert bound(ast.parse("x = y = 1").body[0]) == ["x", "y"]
