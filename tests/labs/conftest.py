"""Runs a notebook as CI does, with nbval in a process of its own, and hands back what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

import labkit
from labkit.labrecord import LabRecord
from labkit.wire import loads

DEADLINE_S = 240.0  # of a whole lab; a cell has 120 s
PATIENCE_S = 10.0  # until the last process of a killed kernel's world is gone
HOME = Path(labkit.__file__).resolve().parent.parent


@dataclass(frozen=True)
class LabRun:
    """A run: the ids of the cells that failed, the record, and what was left behind."""

    failed: tuple[str, ...]
    num_passed: int
    record: LabRecord | None
    alive: tuple[int, ...]
    folders: tuple[str, ...]
    output: str
    elapsed_s: float


Runner = Callable[..., LabRun]


@pytest.fixture(scope="session")
def run_lab(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """run_lab(notebook, name, ranks): from the first cell to the last, in empty folders of its own."""

    def run(notebook: dict[str, Any], name: str, ranks: int) -> LabRun:
        folder = tmp_path_factory.mktemp(name)
        (folder / "pytest.ini").write_text("[pytest]\n")  # the project's own options are not for notebooks
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook))
        (folder / "worlds").mkdir(mode=0o700)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
            "LABKIT_RECORD": str(folder / "records"),
            "LABKIT_RANKS": str(ranks),
            "LABKIT_RUN_ROOT": str(folder / "worlds"),
            "PYTHONPATH": os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        started = time.monotonic()
        output = _nbval(folder, name, environment)
        record_file = folder / "records" / f"{name}.json"
        record = loads(record_file.read_text()) if record_file.exists() else None
        assert record is None or isinstance(record, LabRecord)
        failed, num_passed = _outcomes(folder / "cells.xml", notebook)
        return LabRun(
            failed,
            num_passed,
            record,
            _still_alive(record.processes if record else ()),
            tuple(path.name for path in (folder / "worlds").iterdir()),
            output,
            time.monotonic() - started,
        )

    return run


def _nbval(folder: Path, name: str, environment: dict[str, str]) -> str:
    """What nbval printed. At the deadline its process is ended; the kernel notices and ends itself and its ranks."""
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider", "-q"]
    command += ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout", "120", "--junitxml", "cells.xml", f"{name}.ipynb"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        timeout=DEADLINE_S,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def _outcomes(report: Path, notebook: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """The ids of the cells that failed, and how many passed; nbval numbers code cells from 0."""
    ids = [cell["id"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) == len(ids)
    failed = [ids[int(case.attrib["name"].rpartition(" ")[2])] for case in cases if len(case)]
    return tuple(failed), len(cases) - len(failed)


def _still_alive(pids: tuple[int, ...]) -> tuple[int, ...]:
    """Which of these processes do not end by themselves."""
    ends_s = time.monotonic() + PATIENCE_S
    while (alive := tuple(pid for pid in pids if _runs(pid))) and time.monotonic() < ends_s:
        time.sleep(0.05)
    return alive


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
