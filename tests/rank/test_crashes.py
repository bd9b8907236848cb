"""A process that ends by a fatal signal, or by os._exit, leaves its stack; a fork's end is not taken for the rank's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.frames import parse_crash

START = """
import ctypes, os, pathlib, signal, sys, threading
from labkit.rank.crashes import Stacks
Stacks(pathlib.Path(sys.argv[1]), 1).install()
def run(source):
    exec(compile(source, "cell 3", "exec"), globals())
"""
ENDS = {
    "segmentation fault": ("def f():\n    ctypes.string_at(8)\nf()", -11),
    "abort": ("def f():\n    os.abort()\nf()", -6),
    "arithmetic error": ("def f():\n    os.kill(os.getpid(), signal.SIGFPE)\nf()", -8),
    "bus error": ("def f():\n    signal.raise_signal(signal.SIGBUS)\nf()", -7),
    "os._exit": ("def f():\n    os._exit(3)\nf()", 3),
    "os._exit in a thread": ("def f():\n    os._exit(3)\nt = threading.Thread(target=f)\nt.start()\nt.join()", 3),
}


def stack_of(source: str, folder: Path, code: int) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-c", f"{START}\nrun({source!r})", str(folder)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    found = parse_crash((folder / "rank-1.crash").read_text())
    return [(frame.line, frame.function) for frame in found if frame.users and frame.site.cell]


@pytest.mark.parametrize("how", ENDS)
def test_the_line_at_which_a_process_ended(how: str, tmp_path: Path) -> None:
    source, code = ENDS[how]
    assert (2, "f") in stack_of(source, tmp_path, code)


@pytest.mark.parametrize("end", ["os._exit(5)", "ctypes.string_at(8)"])
def test_the_end_of_a_fork_is_not_the_ranks(end: str, tmp_path: Path) -> None:
    source = f"pid = os.fork()\nif not pid:\n    {end}\nos.waitpid(pid, 0)"
    assert stack_of(source, tmp_path, 0) == []
    assert ("string_at" in (tmp_path / "rank-1.workers").read_text()) == ("string_at" in end)


def test_a_new_process_of_the_rank_begins_with_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "rank-1.crash").write_text('Current thread 0x1 (most recent call first):\n  File "cell 1", line 1 in old\n')
    assert stack_of("x = 1", tmp_path, 0) == []
