"""The labs as files: which there are, and a learner's own copies of them, without the solutions.

A copy that its owner has changed is never written over. What was written is noted in the folder, so that
a copy nobody has touched can follow a newer labkit.

A lab is kept once, with its solutions. A solution stands between two marks, and what stands outside of them stays:

    ### BEGIN SOLUTION
    answer = 42
    ### END SOLUTION

In its place comes a line that says whose turn it is, and a cell that is run with it ends in one line that says so too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import LabkitError, UsageError
from .files import written_whole
from .registry import unknown

INDEX = "index.ipynb"
NOTED = ".labkit-labs.json"
_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE.parent / "labs", _HERE / "_labs")  # beside the package in a checkout, inside of it in a wheel


@dataclass(frozen=True)
class LabFile:
    """One lab: its notebook, and what its manifest says."""

    path: Path
    title: str
    minutes: int
    ranks: tuple[int, ...]
    learn: str = ""

    @property
    def number(self) -> str:
        return self.path.name[:2]


@dataclass(frozen=True)
class Copy:
    """What became of one file: "wrote", "updated", "as it was" or "kept" (its owner has changed it)."""

    path: Path
    what: str


def labs_folder(places: Iterable[Path] = _PLACES) -> Path:
    """Where the labs of this installation are."""
    for place in places:
        if (place / INDEX).is_file():
            return place
    raise LabkitError("this installation has no labs", hint="use a checkout of the project: they are in its folder labs")


def find_labs(folder: Path | None = None) -> tuple[LabFile, ...]:
    """All labs, in their order."""
    found = []
    for path in sorted((folder or labs_folder()).glob("[0-9][0-9]-*.ipynb")):
        manifest = _read(path)["metadata"]["labkit"]
        found.append(LabFile(path, manifest["title"], manifest["minutes"], tuple(manifest["ranks"]), manifest["learn"]))
    return tuple(found)


def index_of(index: Mapping[str, Any], labs: Iterable[LabFile]) -> dict[str, Any]:
    """The index notebook with a table of `labs` in its cell "labs", by what their manifests say.

    >>> lab = LabFile(Path("09-when-it-hangs.ipynb"), "When it hangs", 40, (3, 4), "how a job hangs")
    >>> made = index_of({"cells": [{"id": "labs", "source": ""}]}, [lab])
    >>> made["cells"][0]["source"][-1]
    '| 09 | [When it hangs](09-when-it-hangs.ipynb) | how a job hangs | 40 |'
    """
    rows = [f"| {lab.number} | [{lab.title}]({lab.path.name}) | {lab.learn} | {lab.minutes} |" for lab in labs]
    table = "\n".join(["| | lab | you learn | minutes |", "|---|---|---|---|", *rows])
    cells = [{**cell, "source": table.splitlines(keepends=True)} if cell["id"] == "labs" else cell for cell in index["cells"]]
    return {**index, "cells": cells}


def choose(labs: Iterable[LabFile], name: str) -> LabFile:
    """A lab by its number or its file's name; UnknownName names the nearest one.

    >>> choose([LabFile(Path("09-when-it-hangs.ipynb"), "When it hangs", 40, (3, 4))], "9").title
    'When it hangs'
    """
    labs = tuple(labs)
    wanted = name.removesuffix(".ipynb")
    for lab in labs:
        if wanted in (lab.path.stem, lab.number) or wanted.zfill(2) == lab.number:
            return lab
    raise unknown("lab", name, [lab.number for lab in labs] if wanted.isdigit() else [lab.path.stem for lab in labs])


def copy_labs(target: Path, labs: Iterable[LabFile], source: Path | None = None) -> tuple[Copy, ...]:
    """Write the learner's copies of `labs` into `target`, the index too if it is all of them; says what became of each."""
    source, labs = source or labs_folder(), tuple(labs)
    if target.resolve() == source.resolve():
        raise UsageError(f"{target} holds the labs themselves", hint="name another folder for your copies")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file", hint="name a folder; it is made if it is not there")
    texts = {lab.path.name: as_text(without_solutions(_read(lab.path))) for lab in labs}
    if labs == find_labs(source):
        texts[INDEX] = (source / INDEX).read_text(encoding="utf-8")
    try:
        target.mkdir(parents=True, exist_ok=True)
        noted = _noted(target)
        copies = tuple(_write(target / name, text, noted) for name, text in texts.items())
        with written_whole(target / NOTED) as part:
            part.write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't write in {target}: {error.strerror}", hint="name a folder of your own") from None
    return copies


def as_text(notebook: Mapping[str, Any]) -> str:
    """A notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _write(path: Path, text: str, noted: dict[str, str]) -> Copy:
    """Write one file unless it is somebody's work."""
    there = path.read_bytes() if path.exists() else None
    if there is not None and there != text.encode() and noted.get(path.name) != _digest(there):
        return Copy(path, "kept")
    noted[path.name] = _digest(text.encode())
    if there == text.encode():
        return Copy(path, "as it was")
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")
    return Copy(path, "wrote" if there is None else "updated")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _noted(target: Path) -> dict[str, str]:
    """What was written before, by file name; nothing if the note is not there or not readable."""
    try:
        noted = json.loads((target / NOTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in noted.items()} if isinstance(noted, dict) else {}


def write_index(folder: Path) -> None:
    """Write the table of a folder's labs into its index notebook."""
    path = folder / INDEX
    with written_whole(path) as part:
        part.write_text(as_text(index_of(_read(path), find_labs(folder))), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "raise labkit.errors.YourTurn  # your turn: write your lines here, in place of this one"
GUESS = "guess = ...  # your turn: put your guess in place of the dots"
RANK_STUB = 'raise NotImplementedError("your turn")'  # ranks know torch, and no labkit


def without_solutions(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy of a notebook (as JSON) with a stub in place of each solution."""
    return {**notebook, "cells": [_learners(cell) for cell in notebook["cells"]]}


def has_solution(cell: dict[str, Any]) -> bool:
    """Whether a cell has something to be solved."""
    return cell["cell_type"] == "code" and BEGIN in source_of(cell)


def source_of(cell: dict[str, Any]) -> str:
    """A cell's text, which notebooks keep as one string or as lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _learners(cell: dict[str, Any]) -> dict[str, Any]:
    if cell["cell_type"] == "code":
        cell = {**cell, "outputs": [], "execution_count": None}  # somebody's run would give the answers away
    if not has_solution(cell):
        return cell
    return {**cell, "source": strip(source_of(cell)).splitlines(keepends=True)}


def strip(source: str) -> str:
    """A cell's source with stubs; UsageError for a mark without its partner.

    >>> print(strip("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n    ### END SOLUTION\\nf()"))
    def f():
        raise labkit.errors.YourTurn  # your turn: write your lines here, in place of this one
    f()
    """
    kept: list[str] = []
    solution: list[str] | None = None
    for line in source.splitlines():
        mark = line.strip()
        if mark in (BEGIN, END):
            if (solution is None) == (mark == END):
                raise UsageError(f"{mark!r} without its partner", hint="each solution has one beginning and one end")
            if solution is not None:
                kept.append(line[: len(line) - len(line.lstrip())] + _stub(solution, kept))
            solution = [] if mark == BEGIN else None
        elif solution is None:
            kept.append(line)
        else:
            solution.append(mark)
    if solution is not None:
        raise UsageError(f"{BEGIN!r} without its partner", hint=f"close it with {END!r}")
    return "\n".join(kept)


def _stub(solution: list[str], before: list[str]) -> str:
    """What stands in a solution's place: dots for a guess; on ranks, or in a text for them, nothing of labkit's."""
    above = "\n".join(before)
    if above.startswith("%%ranks") or above.count('"""') % 2:
        return RANK_STUB
    lines = [line for line in solution if line]
    return GUESS if len(lines) == 1 and lines[0].startswith("guess = ") else STUB
