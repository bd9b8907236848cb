"""What a table was measured on, in the words that a reader needs to judge it."""

from __future__ import annotations

import importlib.metadata
import os
import platform


def describe() -> str:
    """Cores, Python, and the versions of what is compared."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "ipyparallel"))
    return f"{cores} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}, {versions}"


def load() -> float:
    """Processes that wanted a core in the last minute, on average."""
    return os.getloadavg()[0]
