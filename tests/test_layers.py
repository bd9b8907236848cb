"""Imports point one way: the table of docs/architecture.md, held against every import in labkit.

Imports inside functions and under TYPE_CHECKING count too: they are dependencies that only look lighter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LABKIT = Path(__file__).resolve().parent.parent / "labkit"

LEAVES = {
    "errors",
    "vocabulary",
    "timings",
    "callgrid",
    "calls",
    "frames",
    "makings",
    "splits",
    "phrases",
    "places",
    "document",
    "registry",
    "units",
    "files",
    "plain",
    "recovered",
    "status",
    "tensors",
    "notes",
    "wire",
    "ring",
    "machine",
    "devices",
    "backends",
    "processes",
    "runfolder",
}
PURE = LEAVES | {"diagnosis", "endings", "recovery", "labrecord", "schedule", "timeline"}
SPECS = PURE | {"faults", "exercises"}
WIDGETS = {"ipywidgets", "anywidget", "plotly", "traitlets"}
EVERYTHING_BUT_RANK = SPECS | {
    "driver",
    "instruments",
    "views",
    "doctor",
    "labs",
    "notebook",
    "cli",
    "__main__",
    "testing",
    "animate",
    "still",
    "bench",
    "hosts",
}

# part -> (parts of labkit it may import, besides itself; other people's packages it may import)
LAYERS: dict[str, tuple[set[str], set[str]]] = {
    **{part: (LEAVES, set()) for part in LEAVES},
    "plain": (LEAVES, {"msgspec"}),
    "machine": (LEAVES, {"psutil"}),
    "processes": (LEAVES, {"psutil", "setproctitle"}),
    **{part: (PURE, {"numpy"}) for part in PURE - LEAVES},
    "faults": (SPECS, {"numpy"}),
    "exercises": (SPECS, {"numpy"}),
    "rank": (SPECS, {"numpy", "torch"}),
    "driver": (SPECS, {"numpy", "psutil"}),
    "instruments": (SPECS | {"driver"}, {"numpy", "psutil"}),
    "views": (SPECS, {"numpy"} | WIDGETS),
    "doctor": (SPECS, {"numpy", "psutil", "packaging"}),
    "labs": (SPECS, set()),
    "notebook": (EVERYTHING_BUT_RANK, {"numpy", "IPython"} | WIDGETS),
    "__main__": (EVERYTHING_BUT_RANK, set()),
    "cli": (EVERYTHING_BUT_RANK, {"numpy", "psutil", "packaging"}),
    "testing": (EVERYTHING_BUT_RANK, {"numpy", "psutil", "pytest"}),
    "still": (SPECS | {"views"}, {"PIL"}),
    "animate": (SPECS | {"views"}, {"numpy", "PIL", "av"}),
    "bench": (EVERYTHING_BUT_RANK, set()),
    "hosts": (EVERYTHING_BUT_RANK, {"psutil"}),
    "__init__": ({"errors", "doctor", "notebook", "instruments"}, set()),
}
# Single files that may have what the rest of their layer may not.
FENCED: dict[str, set[str]] = {
    "rank/engine.py": {"ipyparallel"},
    "rank/forkserver.py": {"ipyparallel", "ipykernel", "psutil"},  # loads them once, for all its forks
    "rank/boot.py": {"IPython"},  # finds the shell of the engine it runs in
    "rank/saving.py": {"cloudpickle"},
    "driver/ipp.py": {"ipyparallel"},
    "driver/launch.py": {"ipyparallel"},
}
# What a layer may import inside functions only.
LAZY: dict[str, set[str]] = {"faults": {"torch"}}
LOADERS = ("import_module", "__import__")


def imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[int, str, bool]]:
    """Line, full name and whether it sits in a function, of everything a module imports.

    `package` is where relative imports start: ("labkit", "rank") for labkit/rank/tap.py.
    """
    inside = {id(node) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(f)}
    for node in ast.walk(tree):
        lazy = id(node) in inside
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base == "labkit":  # `from .. import wire` means labkit.wire
                yield from ((node.lineno, f"labkit.{alias.name}", lazy) for alias in node.names)
            else:
                yield node.lineno, base, lazy
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in LOADERS:
            named = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            yield from ((node.lineno, str(name), lazy) for name in named)


def violations(file: str, source: str) -> list[str]:
    """What `labkit/<file>` imports and may not, as sentences."""
    parts = file.removesuffix(".py").split("/")
    part = parts[0]
    if part not in LAYERS:
        return [f"labkit/{file}: no row for {part!r} in the table of layers"]
    ours, theirs = LAYERS[part]
    found = []
    for line, name, lazy in imports(ast.parse(source), ("labkit", *parts[:-1])):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if top != "labkit":
            extra = FENCED.get(file, set()) | (LAZY.get(part, set()) if lazy else set())
            wrong = top not in sys.stdlib_module_names and top not in theirs | extra
        else:
            wrong = target not in ours | {part} or target not in LAYERS
        if wrong:
            found.append(f"labkit/{file}:{line}: {part} may not import {name}")
    return found


def files() -> list[str]:
    return sorted(path.relative_to(LABKIT).as_posix() for path in LABKIT.rglob("*.py"))


def test_imports_point_one_way() -> None:
    assert [(file, found) for file in files() if (found := violations(file, (LABKIT / file).read_text()))] == []


def test_the_documented_table_names_no_part_that_is_not_held_here(root: Path) -> None:
    rows = re.findall(r"^\| (`.*?) \|", (root / "docs" / "architecture.md").read_text(), flags=re.M)
    named = {name.rstrip("/") for row in rows for name in re.findall(r"[a-z]+/?", row)}
    assert len(rows) == 9
    assert named <= set(LAYERS)


@pytest.mark.parametrize(
    ("file", "source", "name"),
    [
        ("wire.py", "import numpy", "numpy"),
        ("ring.py", "from .diagnosis import judge", "labkit.diagnosis"),
        ("diagnosis/judge.py", "import torch", "torch"),
        ("diagnosis/rules/x.py", "from ...rank import tap", "labkit.rank"),
        ("faults/x.py", "import torch", "torch"),
        ("faults/x.py", "if TYPE_CHECKING:\n    import torch", "torch"),
        ("faults/x.py", "def arm():\n    from ..rank.tap import PendingCall", "labkit.rank.tap"),
        ("rank/tap.py", "from ..driver.world import World", "labkit.driver.world"),
        ("rank/tap.py", "import ipyparallel", "ipyparallel"),
        ("driver/world.py", "from .. import views", "labkit.views"),
        ("driver/world.py", "def f():\n    import torch", "torch"),
        ("driver/world.py", "import ipyparallel as ipp", "ipyparallel"),
        ("driver/world.py", "importlib.import_module('labkit.rank.boot')", "labkit.rank.boot"),
        ("views/table.py", "if TYPE_CHECKING:\n    from ..driver.world import World", "labkit.driver.world"),
        ("notebook.py", "from .rank import context", "labkit.rank"),
        ("cli.py", "import labkit", "labkit"),
        ("cli.py", "from . import __version__", "labkit.__version__"),
        ("driver/world.py", "from labkit import errors, start", "labkit.start"),
    ],
)
def test_a_violation_is_caught(file: str, source: str, name: str) -> None:
    found = violations(file, source)
    assert len(found) == 1
    assert found[0].endswith(f"may not import {name}")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("rank/engine.py", "import ipyparallel, torch\nfrom ..wire import Call"),
        ("driver/ipp.py", "from ipyparallel import Client\nfrom .. import wire"),
        ("faults/x.py", "def arm(context):\n    import torch.distributed as dist"),
        ("notebook.py", "from .driver import world\nfrom . import views"),
    ],
)
def test_what_is_allowed_passes(file: str, source: str) -> None:
    assert violations(file, source) == []


def test_a_new_part_needs_a_row() -> None:
    assert "no row" in violations("helpers.py", "")[0]
