"""The style of labs: short texts, imports of labkit alone, names for cells, and a first and a last cell that say so.

Lengths of code cells and stored outputs are held by tests/test_notebooks.py.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from labkit.exercises import CHECKS, prediction_of
from labkit.exercises.guess import Found
from labkit.faults import FAULTS
from labkit.labs import source_of, strip, write_index

LABS = Path(__file__).resolve().parent.parent.parent / "labs"
WORDS = 120
TAGS = {"rank-code", "exercise", "needs-exercise"}  # the last one calls what an exercise defines
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MANIFEST = {"title", "minutes", "ranks", "faults", "learn"}
PATHS = sorted(LABS.glob("[0-9]*.ipynb"))


def untidy(notebook: dict[str, Any]) -> list[str]:
    """What is wrong with a lab, as sentences."""
    cells = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    ids = [cell["id"] for cell in cells]
    found = [f"two cells are called {name}" for name in sorted({name for name in ids if ids.count(name) > 1})]
    if not any(line.startswith("world = labkit.start(") for line in source_of(code[0]).splitlines()):
        found.append("the first cell opens no world")
    if "world.stop()" not in source_of(code[-1]) or "lab.done()" not in source_of(code[-1]):
        found.append("the last cell does not stop the world and close the lab")
    for cell in cells:
        found += [f"{cell['id']}: {what}" for what in (untidy_code(cell) if cell in code else untidy_text(cell))]
        if not SLUG.fullmatch(cell["id"]):
            found.append(f"{cell['id']} is no slug")
        if set(cell["metadata"]) - {"tags"}:
            found.append(f"{cell['id']} has metadata besides its tags")
    if set(notebook["metadata"]) != {"kernelspec", "language_info", "labkit"}:
        found.append("metadata of the notebook that is not on the list")
    if set(notebook["metadata"].get("labkit", {})) != MANIFEST:
        found.append("the manifest does not have title, learn, minutes, ranks and faults")
    return found


def untidy_text(cell: dict[str, Any]) -> list[str]:
    words = len(source_of(cell).split())
    return [f"{words} words, more than {WORDS}"] if words > WORDS else []


def untidy_code(cell: dict[str, Any]) -> list[str]:
    tags, source = set(cell["metadata"].get("tags", [])), source_of(cell)
    found = [f"unknown tag {tag}" for tag in sorted(tags - TAGS)]
    on_ranks = source.startswith("%%ranks")
    if on_ranks != ("rank-code" in tags):
        found.append("%%ranks and the tag rank-code go together")
    if ("### BEGIN SOLUTION" in source) != ("exercise" in tags):
        found.append("a solution and the tag exercise go together")
    strip(source)
    if on_ranks:
        return found
    tree = ast.parse(source)
    if not tags and any(isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)) for node in ast.walk(tree)):
        found.append("defines something")
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return found + [f"imports {module}" for module in modules if module.partition(".")[0] != "labkit"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_lab_has_style(path: Path) -> None:
    assert untidy(json.loads(path.read_text())) == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_lab_names_itself_its_checks_and_its_faults(path: Path) -> None:
    notebook = json.loads(path.read_text())
    text = "\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert f'labkit.lab("{path.stem}")' in text
    asked = set(re.findall(r'lab\.check\("([^"]+)"', text))
    assert asked == {name for name in CHECKS if name.startswith(f"{path.stem[:2]}/")}
    assert all(name in FAULTS and f'"{name}"' in text for name in notebook["metadata"]["labkit"]["faults"])


def unanswered(notebook: dict[str, Any]) -> list[str]:
    """The predictions that no check of the notebook answers; a check that does says so in its type, which mypy holds."""
    text = "\n".join(source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code")
    asked = re.findall(r'lab\.check\("([^"]+)"', text)
    answered = {prediction_of(name) for name in asked if get_type_hints(CHECKS[name])["return"] is Found}
    return sorted(set(re.findall(r'lab\.predict\("([^"]+)"', text)) - answered)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_prediction_is_answered(path: Path) -> None:
    assert unanswered(json.loads(path.read_text())) == []


def test_a_prediction_without_an_answer_is_caught() -> None:
    asks = [
        cell(f"p{number}", f'lab.predict("{name}", guess)') for number, name in enumerate(("01/blame", "01/ending", "01/sum"))
    ]
    checks = [cell("b", 'lab.check("01/blame", blame)'), cell("s", 'lab.check("01/sum", table)')]
    assert unanswered(lab(*asks, *checks)) == ["01/blame", "01/ending"]
    assert unanswered(lab(*asks, *checks, cell("e", 'lab.check("01/again", table, status)'))) == ["01/blame"]


def test_the_index_is_what_the_labs_say(tmp_path: Path) -> None:
    index = (LABS / "index.ipynb").read_text()
    assert all(cell["cell_type"] == "markdown" for cell in json.loads(index)["cells"])
    for path in LABS.glob("*.ipynb"):
        shutil.copy(path, tmp_path)
    write_index(tmp_path)
    assert (tmp_path / "index.ipynb").read_text() == index, "`make index` writes it anew"


def lab(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    opens = cell("open", "world = labkit.start()\n")
    closes = cell("close", "world.stop()\nlab.done()")
    manifest = dict.fromkeys(MANIFEST, 1)
    return {"cells": [opens, *cells, closes], "metadata": {"kernelspec": {}, "language_info": {}, "labkit": manifest, **metadata}}


def cell(name: str, source: str, *tags: str, kind: str = "code", **metadata: Any) -> dict[str, Any]:
    return {"cell_type": kind, "id": name, "source": source, "metadata": {**({"tags": list(tags)} if tags else {}), **metadata}}


@pytest.mark.parametrize(
    "notebook",
    [
        lab(cell("a", "words " * 121, kind="markdown")),
        lab(cell("a", "import torch")),
        lab(cell("a", "from numpy import array")),
        lab(cell("a", "def f():\n    pass")),
        lab(cell("a", "x", "hidden")),
        lab(cell("a", "%%ranks\nx")),
        lab(cell("a", "x", "rank-code")),
        lab(cell("a", "### BEGIN SOLUTION\nx\n### END SOLUTION")),
        lab(cell("A b", "x")),
        lab(cell("a", "x"), cell("a", "y")),
        lab(cell("a", "x", collapsed=True)),
        lab(widgets={}),
        lab(labkit={"title": "x"}),
        {**lab(), "cells": lab()["cells"][:1]},
        {**lab(), "cells": lab()["cells"][1:]},
    ],
)
def test_what_has_no_style_is_caught(notebook: dict[str, Any]) -> None:
    assert len(untidy(notebook)) == 1


def test_a_good_lab_passes() -> None:
    good = lab(
        cell("text", "words " * 120, kind="markdown"),
        cell("on-ranks", "%%ranks\nimport os", "rank-code"),
        cell("your-turn", "def f():\n    ### BEGIN SOLUTION\n    pass\n    ### END SOLUTION", "exercise"),
        cell("look", "from labkit.exercises.primes import roll_call"),
    )
    assert untidy(good) == []
