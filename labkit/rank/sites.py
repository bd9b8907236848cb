"""Where in the learner's code a call comes from, and the stacks of this rank's threads.

`find_chain` runs before every collective, so it has a budget of about a microsecond: a walk up the frames, and one
dictionary look-up per frame that says whether a file is the learner's. It ends where the cell begins.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from ..frames import CELL_RUNNER, IS_USERS, function_name, is_users_file, trimmed, users_frame
from ..wire import CallSite, Frame

_CHAINS: dict[tuple[tuple[str, int, str], ...], tuple[CallSite, ...]] = {}
_MOST_CHAINS = 1024
_DEEPEST = 32  # frames that are kept of a chain


def find_chain(frame: FrameType | None = None) -> tuple[CallSite, ...]:
    """The learner's frames on the stack, outermost first; () if there is none (a thread of a library's).

    The same frames give the same tuple again. Of a deep recursion the outermost and the innermost frames are kept.
    """
    at: FrameType | None = frame if frame is not None else sys._getframe(1)
    found = []
    while at is not None:
        code = at.f_code
        name = code.co_filename
        if IS_USERS[name] if name in IS_USERS else is_users_file(name):
            found.append((name, at.f_lineno, code.co_name))
        elif name == CELL_RUNNER:
            break
        at = at.f_back
    key = tuple(found)
    chain = _CHAINS.get(key)
    return chain if chain is not None else _remember(key)


def chain_here(frame: FrameType) -> tuple[CallSite, ...]:
    """The chain of a frame; in a thread of a library's (autograd's for a GPU) that of the main thread, which waits for it."""
    chain = find_chain(frame)
    if chain or threading.current_thread() is threading.main_thread():
        return chain
    return find_chain(sys._current_frames().get(threading.main_thread().ident or 0, frame))


def _remember(key: tuple[tuple[str, int, str], ...]) -> tuple[CallSite, ...]:
    frames = key if len(key) <= _DEEPEST else key[: _DEEPEST // 2] + key[-_DEEPEST // 2 :]
    chain = tuple(CallSite(*frame) for frame in reversed(frames))
    if len(_CHAINS) >= _MOST_CHAINS:
        _CHAINS.clear()
    return _CHAINS.setdefault(key, chain)


def main_stack() -> tuple[Frame, ...]:
    """What the main thread is in, outermost first: every frame of the learner's, and a few of a library's."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames: list[Frame] = []
    while frame is not None and frame.f_code.co_filename != CELL_RUNNER:
        frames.append(users_frame(frame.f_code.co_filename, frame.f_lineno or 0, function_name(frame.f_code)))
        frame = frame.f_back
    return trimmed(frames[::-1])
