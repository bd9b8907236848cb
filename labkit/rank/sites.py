"""Where in the learner's code a call comes from.

Runs before every collective, so it has a budget of about a microsecond: a walk up the frames, and one
dictionary look-up per frame that says whether a file is the learner's.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import FrameType

from ..wire import CallSite

_LIBRARY_ROOTS = tuple(
    {
        str(Path(sysconfig.get_paths()["stdlib"])),
        str(Path(sysconfig.get_paths()["purelib"])),
        str(Path(sysconfig.get_paths()["platlib"])),
        str(Path(__file__).resolve().parent.parent),
    }
)
_IS_USERS: dict[str, bool] = {}


def is_users_file(filename: str) -> bool:
    """Whether a code object's file is the learner's: a rank cell or a module outside the libraries."""
    known = _IS_USERS.get(filename)
    if known is None:
        known = filename.startswith("cell ") or not (filename.startswith("<") or filename.startswith(_LIBRARY_ROOTS))
        _IS_USERS[filename] = known
    return known


def find_site(frame: FrameType | None = None) -> CallSite | None:
    """The innermost line of the learner's on the stack, or None (a thread of a library's)."""
    at: FrameType | None = frame if frame is not None else sys._getframe(1)
    while at is not None:
        code = at.f_code
        if is_users_file(code.co_filename):
            return CallSite(code.co_filename, at.f_lineno, code.co_name)
        at = at.f_back
    return None
