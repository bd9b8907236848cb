"""Stacks: which files are the learner's, which frames of a deep stack are kept, and a fault handler's text read back."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType

from .places import Frame

_PATHS = sysconfig.get_paths()
LIBRARY_ROOTS = tuple({_PATHS["stdlib"], _PATHS["purelib"], _PATHS["platlib"], str(Path(__file__).resolve().parent)})
CELL_RUNNER = str(Path(__file__).resolve().parent / "rank" / "cell.py")
IS_USERS: dict[str, bool] = {}
MOST_USERS = 32  # frames of the learner's that are kept of a deep recursion
OUTER, INNER = 2, 8  # library frames that are kept where a run of them begins, and at the end of the stack


def is_users_file(filename: str) -> bool:
    """Whether a code object's file is the learner's: a rank cell or a module outside the libraries."""
    known = IS_USERS.get(filename)
    if known is None:
        known = filename.startswith("cell ") or not (filename.startswith("<") or filename.startswith(LIBRARY_ROOTS))
        IS_USERS[filename] = known
    return known


def function_name(code: CodeType) -> str:
    """A function with its class, without the functions around it: "Linear.forward"."""
    return code.co_qualname.rpartition("<locals>.")[2]


def package_of(file: str) -> str:
    """The package that a library's file belongs to; a module of one file is one, and so is a file of the learner's.

    >>> package_of("/lib/python3.11/site-packages/torch/nn/modules/linear.py"), package_of("/lib/python3.11/queue.py")
    ('torch', 'queue.py')
    """
    for root in ("site-packages/", "dist-packages/", "lib/python3."):
        if root in file:
            rest = file.rpartition(root)[2]
            return (rest.partition("/")[2] if root == "lib/python3." else rest).partition("/")[0]
    return file


def users_frame(file: str, line: int, function: str) -> Frame:
    """A frame that says whose code it is."""
    return Frame(file, line, function, users=is_users_file(file))


def trimmed(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """What is kept of a stack (outermost first): the learner's frames, and a few of a library's; those left out are counted.

    It begins where the cell does. The first frames that the learner's code calls and the innermost ones are kept.
    """
    start = max((at + 1 for at, frame in enumerate(frames) if frame.file == CELL_RUNNER), default=0)
    frames = frames[start:]
    users = [at for at, frame in enumerate(frames) if frame.users]
    kept = {*users[: MOST_USERS // 2], *users[-MOST_USERS // 2 :], *range(len(frames) - INNER, len(frames))}
    kept |= {at + step for at in users[-1:] for step in range(1, OUTER + 1)}
    found: list[Frame] = []
    skipped = 0
    for at, frame in enumerate(frames):
        if at in kept:
            found.append(replace(frame, skipped=skipped))
            skipped = 0
        else:
            skipped += 1
    return tuple(found)


_LINE = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')


def parse_dump(text: str) -> tuple[Frame, ...]:
    """The main thread's stack out of a faulthandler dump: the thread that took the signal, outermost first.

    >>> parse_dump('Current thread 0x1 (most recent call first):\\n  File "cell 3", line 2 in <module>\\n')
    (Frame(file='cell 3', line=2, function='<module>', users=True, skipped=0),)
    """
    at = text.find("Current thread")
    return _block(text[at:] if at >= 0 else text[text.rfind("Thread 0x") :])


def parse_crash(text: str) -> tuple[Frame, ...]:
    """The stack of a process that a fatal signal has ended: of the thread that took it, or the main thread's if that has none.

    >>> dump = 'Fatal Python error: Aborted\\n\\nThread 0x1 (most recent call first):\\n  File "cell 3", line 2 in f\\n'
    >>> parse_crash(dump)[0].site
    CallSite(file='cell 3', line=2, function='f')
    """
    stacks = [_block(block) for block in re.split(r"^(?=(?:Current thread|Thread) 0x)", text, flags=re.MULTILINE)[1:]]
    current = parse_dump(text) if "Current thread" in text else ()
    candidates = [current, *(stack for stack in reversed(stacks))]
    learners = (stack for stack in candidates if any(frame.users for frame in stack))
    return next(learners, current or (stacks[-1] if stacks else ()))


def _block(text: str) -> tuple[Frame, ...]:
    """The frames of one thread of a dump."""
    frames: list[Frame] = []
    for line in text.splitlines()[1:]:
        match = _LINE.match(line)
        if match is None:
            break
        frames.append(users_frame(match[1], int(match[2]), match[3]))
    return trimmed(frames[::-1])
