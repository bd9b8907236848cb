"""A rank cell as text, run for each rank with a `dist` that only writes down what is called from where.

    run_cells("for step in range(3):\n    dist.all_reduce(8)", ranks=4).evidence()

The first argument of a call is its number of elements. `library(f)` calls `f` by way of a library's frame.
"""

from __future__ import annotations

import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

from labkit.rank.sites import find_chain
from labkit.wire import CallSite

from .build import Step, World

LIBRARY = str(Path(sysconfig.get_paths()["purelib"]) / "torch" / "autograd.py")
OPS = ("all_reduce", "broadcast", "barrier", "all_gather", "reduce", "reduce_scatter")
CELL = 7


class Dist:
    """Stands for torch.distributed."""

    def __init__(self, files: set[str]) -> None:
        self.steps: list[Step] = []
        for op in OPS:
            setattr(self, op, self._recorder(op, files))

    def _recorder(self, op: str, files: set[str]) -> Any:
        def call(numel: int = 8, root: int = -1, group: str = "world", reduce_op: str = "") -> None:
            chain = tuple(site for site in find_chain(sys._getframe(1)) if site.file in files)
            self.steps.append(Step(op, chain[-1].line, numel, root=root, group=group, reduce_op=reduce_op, chain=chain))

        return call


def program(source: str, rank: int, ranks: int, files: dict[str, str]) -> list[Step]:
    """The calls that a rank makes in a cell; an exception ends it."""
    cell = f"cell {CELL}"
    mine = {name: f"/home/rank-{rank}/{name}" for name in files}
    dist = Dist({cell, *mine.values()})
    passed: dict[str, Any] = {}
    exec(compile("def library(f, *given):\n    return f(*given)", LIBRARY, "exec"), passed)
    names = {"rank": rank, "world_size": ranks, "dist": dist, "library": passed["library"], "__name__": "cells"}
    for name, text in files.items():
        module = types.ModuleType(name.removesuffix(".py"))
        module.__dict__.update(dist=dist)
        exec(compile(text, mine[name], "exec"), module.__dict__)
        names[module.__name__] = module
    try:
        exec(compile(source, cell, "exec"), names)
    except ValueError:
        dist.steps.append(Step("raise", 1))
    return dist.steps


def run_cells(source: str, ranks: int = 3, *, files: dict[str, str] | None = None, groups: Any = None, seed: int = 0) -> World:
    """The world after every rank has run the cell as far as it comes."""
    files = files or {}
    programs = [program(source, rank, ranks, files) for rank in range(ranks)]
    return World(programs, {"world": tuple(range(ranks)), **(groups or {})}, cell=CELL, source=source).run(None, seed)


def line_of(source: str, text: str) -> int:
    """The number of the line that holds a text."""
    return next(number for number, line in enumerate(source.splitlines(), start=1) if text in line)


def sites(steps: list[Step]) -> list[tuple[CallSite, ...]]:
    return [step.chain for step in steps]
