"""Stacks of this rank's main thread, taken by another thread, and a dump by signal for when none can run."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from pathlib import Path

from ..wire import Frame

LIMIT = 24


def main_stack(limit: int = LIMIT) -> list[Frame]:
    """The main thread's innermost frames, outermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames: list[Frame] = []
    while frame is not None and len(frames) < limit:
        code = frame.f_code
        frames.append(Frame(code.co_filename, frame.f_lineno or 0, code.co_name))
        frame = frame.f_back
    frames.reverse()
    ours = [at for at, frame in enumerate(frames) if frame.file.endswith("rank/cell.py")]
    return frames[ours[-1] + 1 :] if ours else frames


def dump_on_signal(path: Path) -> None:
    """SIGUSR1 makes the interpreter write every thread's stack to `path`, even while its lock is held."""
    # the file object must live as long as the process: faulthandler keeps only the descriptor
    dump_on_signal.file = path.open("w")  # type: ignore[attr-defined]
    faulthandler.register(signal.SIGUSR1, file=dump_on_signal.file, all_threads=True, chain=False)  # type: ignore[attr-defined]
