"""What is left of a process that ends by itself: a fatal signal or `os._exit` writes the stack to a file.

The interpreter's fault handler writes it, so Python need not work any more. A process that the rank forks (a DataLoader's worker)
writes to a file of its own: its crash is not the rank's.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path
from typing import Any

SUFFIX = ".crash"


class Stacks:
    """The files for this process's stacks; they stay open, since the fault handler keeps only their descriptors."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._asked = (folder / f"rank-{rank}.stack").open("w")
        self._crash = (folder / f"rank-{rank}{SUFFIX}").open("w")
        self._worker = (folder / f"rank-{rank}.workers").open("w")

    def install(self) -> None:
        """SIGUSR1 makes the interpreter write every thread's stack, even while its lock is held; so does a fatal signal."""
        faulthandler.register(signal.SIGUSR1, file=self._asked, all_threads=True, chain=False)
        faulthandler.enable(file=self._crash, all_threads=True)
        os.register_at_fork(after_in_child=lambda: faulthandler.enable(file=self._worker, all_threads=True))
        _note_exits(self._crash)


def _note_exits(file: Any) -> None:
    """`os._exit` ends the process without a word; here it writes its stack first."""
    leave, owner = os._exit, os.getpid()

    def _exit(status: int) -> Any:
        if os.getpid() == owner:
            faulthandler.dump_traceback(file=file, all_threads=True)
        leave(status)

    os._exit = _exit
