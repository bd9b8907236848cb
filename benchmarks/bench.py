"""What a measure is handed: how often to repeat, and how to start each program that is measured."""

from __future__ import annotations

import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from .program import Completed, Program, complete, environment, sweep

T = TypeVar("T")
PROGRAMS = "benchmarks.programs"


class Bench:
    """One run of the table. As a context manager it takes away its folder and what was left running.

    `repeat` is how often the dear things (a start, a restart) are taken; `rounds` scales the cheap ones.
    """

    def __init__(self, repeat: int = 5, *, quick: bool = False, say: Callable[[str], None] = lambda text: None) -> None:
        self.repeat, self.quick, self.say = (1 if quick else repeat), quick, say
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-bench-"))
        self.left_behind: list[str] = []
        self._count = 0
        self._kept: dict[str, Any] = {}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.tidy()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tidy(self, patience_s: float = 5.0) -> list[str]:
        """End and note whatever the programs so far have left running once `patience_s` is over."""
        found = sweep(self.mark, patience_s)
        self.left_behind += found
        return found

    def rounds(self, count: int) -> int:
        """How many rounds of a cheap comparison: `count`, or a tenth of it when quick."""
        return max(2, count // 10) if self.quick else count

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, made once in this run: two measures may read one experiment."""
        if name not in self._kept:
            self._kept[name] = make()
        kept: T = self._kept[name]
        return kept

    # ---- the programs
    def labkit(self, *arguments: str) -> Program:
        """A kernel with a labkit world; see programs/labkit_world.py for the arguments."""
        return self._start("labkit", ["-m", f"{PROGRAMS}.labkit_world", *arguments])

    def torchrun(self, ranks: int = 4) -> Program:
        """The same ranks under torchrun."""
        options = ["--standalone", f"--nproc-per-node={ranks}"]
        return self._start("torchrun", ["-m", "torch.distributed.run", *options, "-m", f"{PROGRAMS}.torchrun_rank"])

    def stock(self, ranks: int = 4) -> Program:
        """A kernel with ipyparallel as it comes."""
        return self._start("stock", ["-m", f"{PROGRAMS}.stock_ipyparallel", str(ranks)])

    def pytest(self, lane: str, limit_s: float) -> tuple[float, int]:
        """Seconds and exit status of a lane of the tests."""
        done = self.complete("pytest", [sys.executable, "-m", "pytest", "-q", "-m", lane, "tests"], limit_s)
        return done.seconds, done.status

    def complete(self, name: str, command: list[str], limit_s: float) -> Completed:
        """A program without a channel, run to its end; BenchError if it takes longer than `limit_s`."""
        self._count += 1
        return complete(command, environment(self.mark, self.folder), self.folder / f"{name}-{self._count}.log", limit_s)

    def _start(self, name: str, command: list[str]) -> Program:
        self._count += 1
        return Program(command, environment(self.mark, self.folder), self.folder, f"{name}-{self._count}")
