"""The labs as files: which there are, and a learner's own copies of them, without the solutions.

A copy that its owner has changed is never written over. What was written is noted in the folder, so that
a copy nobody has touched can follow a newer labkit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import LabkitError, UsageError
from .exercises.solutions import without_solutions
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
        (target / NOTED).write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")
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
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
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
    path.write_text(as_text(index_of(_read(path), find_labs(folder))), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook
