"""What benchmarks, scripts, labs and pages import of labkit is there: the type checker and the linters look at labkit/ alone."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def sources() -> Iterator[tuple[str, str]]:
    """Name and text of everything outside of labkit/ that may import it."""
    for path in sorted((ROOT / "benchmarks").rglob("*.py")) + [
        ROOT / "scripts" / name for name in ("gallery", "gpu-check", "size")
    ]:
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in sorted((ROOT / "labs").glob("*.ipynb")):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        texts = ["".join(cell["source"]) for cell in cells]
        yield path.name, "\n".join(text for text in texts if not text.startswith("%%"))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.S)
        yield path.name, "\n".join(line for block in blocks for line in block.splitlines() if line.startswith("from labkit"))


def imported(text: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each `from labkit... import name`, and (module, "") of each `import labkit...`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "labkit":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "labkit")


def missing(text: str) -> list[str]:
    found = []
    for module, name in imported(text):
        try:
            there = importlib.import_module(module)
            if name and not hasattr(there, name):
                importlib.import_module(f"{module}.{name}")
        except ImportError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(("where", "text"), [pytest.param(where, text, id=where) for where, text in sources()])
def test_what_is_imported_is_there(where: str, text: str) -> None:
    assert missing(text) == [], where


def test_what_is_not_there_is_caught() -> None:
    assert len(missing("from labkit.driver.nowhere import x\nfrom labkit.wire import Nothing, Call\nimport labkit.never")) == 3
