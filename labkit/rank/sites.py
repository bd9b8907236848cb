"""Where in the learner's code a call comes from, and the stacks of this rank's threads.

`find_chain` runs before every collective, so it has a budget of about a microsecond: a walk up the frames, and one
dictionary look-up per frame that says whether a file is the learner's. It ends where the cell begins.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import sysconfig
import threading
from pathlib import Path
from types import FrameType

from ..wire import CallSite, Frame

_LIBRARY_ROOTS = tuple(
    {
        str(Path(sysconfig.get_paths()["stdlib"])),
        str(Path(sysconfig.get_paths()["purelib"])),
        str(Path(sysconfig.get_paths()["platlib"])),
        str(Path(__file__).resolve().parent.parent),
    }
)
_CELL_RUNNER = str(Path(__file__).resolve().parent / "cell.py")
_IS_USERS: dict[str, bool] = {}
_CHAINS: dict[tuple[tuple[str, int, str], ...], tuple[CallSite, ...]] = {}
_MOST_CHAINS = 1024
_DEEPEST = 32  # frames that are kept of a chain


def is_users_file(filename: str) -> bool:
    """Whether a code object's file is the learner's: a rank cell or a module outside the libraries."""
    known = _IS_USERS.get(filename)
    if known is None:
        known = filename.startswith("cell ") or not (filename.startswith("<") or filename.startswith(_LIBRARY_ROOTS))
        _IS_USERS[filename] = known
    return known


def find_chain(frame: FrameType | None = None) -> tuple[CallSite, ...]:
    """The learner's frames on the stack, outermost first; () if there is none (a thread of a library's).

    The same frames give the same tuple again. Of a deep recursion the outermost and the innermost frames are kept.
    """
    at: FrameType | None = frame if frame is not None else sys._getframe(1)
    found = []
    while at is not None:
        code = at.f_code
        name = code.co_filename
        if _IS_USERS[name] if name in _IS_USERS else is_users_file(name):
            found.append((name, at.f_lineno, code.co_name))
        elif name == _CELL_RUNNER:
            break
        at = at.f_back
    key = tuple(found)
    chain = _CHAINS.get(key)
    return chain if chain is not None else _remember(key)


def _remember(key: tuple[tuple[str, int, str], ...]) -> tuple[CallSite, ...]:
    frames = key if len(key) <= _DEEPEST else key[: _DEEPEST // 2] + key[-_DEEPEST // 2 :]
    chain = tuple(CallSite(*frame) for frame in reversed(frames))
    if len(_CHAINS) >= _MOST_CHAINS:
        _CHAINS.clear()
    return _CHAINS.setdefault(key, chain)


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
