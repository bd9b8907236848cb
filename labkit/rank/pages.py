"""Puts a process's memory on huge pages, so that forks of it are made, and ended, in less than half the time.

A fork copies the table of pages: an entry for each 4 KiB, or one for 2 MiB where a huge page is. With torch imported that
is 100,000 entries, and each rank and each twin is such a fork.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

_HUGE = 1 << 21
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25


class Collapse:
    """Collapses what an import makes while it is being made, on another core; the thread is gone at the end of the block."""

    def __enter__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="labkit-pages")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        collapse()

    def _work(self) -> None:
        while not self._over.wait(0.2):
            collapse()


def collapse() -> None:
    """Ask the system for it; where it has no huge pages, or no room for them, nothing changes."""
    try:
        libc, lines = ctypes.CDLL(None), Path("/proc/self/maps").read_text().splitlines()
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    except (OSError, AttributeError):
        return
    for line in lines:
        place, rights, _, _, inode, *name = line.split(maxsplit=5)
        if not rights.startswith("rw-p") or inode != "0" or (name and name[0] != "[heap]"):
            continue
        begin, end = (int(number, 16) for number in place.split("-"))
        begin, end = -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
        if end > begin and libc.madvise(begin, end - begin, _MADV_HUGEPAGE) == 0:
            libc.madvise(begin, end - begin, _MADV_COLLAPSE)
