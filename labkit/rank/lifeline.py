"""Runs a Python module and ends with the kernel: `python -m labkit.rank.lifeline FD -m MODULE ARG ...`.

For processes that are not forks of the fork server. A thread reads from FD, a socket whose other end
only the kernel holds; end of file means that the kernel is gone, and then this process and whatever it
has started go too.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import socket
import sys
import threading

from ..processes import set_title
from .place import join_user


def _watch(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as line, contextlib.suppress(OSError):  # as good as an end of file
        line.recv(1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Watch, and be the module."""
    descriptor, flag, module, *arguments = sys.argv[1:]
    assert flag == "-m"
    set_title(os.environ.pop("LABKIT_TITLE", module), os.environ.pop("LABKIT_SHORT_TITLE", module))
    os.environ.pop("SPT_NOENV", None)  # it was meant for this process alone
    join_user()
    threading.Thread(target=_watch, args=(int(descriptor),), name="labkit-lifeline", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
