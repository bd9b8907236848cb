"""NCCL in a rank: an abort of the communicators ends the waits for the GPU; its log goes into the world's folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .base import RANK_BACKENDS, RankBackend

ABORT_WAIT_S = 0.3


@RANK_BACKENDS.register("nccl")
class NcclRank(RankBackend):
    """Waits are released by aborting every group's communicator."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._aborts: dict[Any, threading.Thread] = {}

    def start(self, run_dir: Path, rank: int) -> None:
        """Name NCCL's log file, unless the user has named one.

        NCCL puts the pid in place of %p, so a rank that was replaced does not write over what the one before it has left.
        """
        if os.environ.get("LABKIT_NCCL_LOG") == "1":
            folder = str(run_dir / "log").replace("%", "%%")
            os.environ.setdefault("NCCL_DEBUG_FILE", f"{folder}/{self.facts.log_pattern.format(rank=rank, pid='%p')}")

    def group_options(self, device: str) -> dict[str, Any]:
        """With a device the communicator is made at once, and not at the first call."""
        import torch

        return {"device_id": torch.device(device)} if device.startswith("cuda") else {}

    def release(self, interrupt: Callable[[], object]) -> int:
        """Interrupt first, then abort.

        A wait that an abort ends returns as if all were well, with numbers that mean nothing. The interrupt is pending by
        then, so no line of the cell runs.
        """
        interrupt()
        return self.abort_groups()

    def before_destroy(self) -> None:
        """torch would wait for what is enqueued, up to the group's timeout."""
        self.abort_groups()

    def after_destroy(self) -> None:
        """The next groups are aborted anew."""
        self._aborts.clear()

    def abort_groups(self, wait_s: float = ABORT_WAIT_S) -> int:
        """Abort every group's communicator; how many aborts have ended within `wait_s`.

        One thread for each group, all at once: an abort waits for its communicator's kernels, which may be queued behind
        another's. An abort that takes longer goes on, and the next call of this method waits for it again. Nothing of
        torch's own records is touched, so that the main thread can still destroy the groups.
        """
        from torch.distributed import distributed_c10d as c10d

        for group in list(c10d._world.pg_map) if c10d.is_initialized() else ():
            if group not in self._aborts:
                self._aborts[group] = threading.Thread(target=group.abort, name="labkit-abort", daemon=True)
                self._aborts[group].start()
        end_s = time.monotonic() + wait_s
        for thread in self._aborts.values():
            thread.join(max(0.0, end_s - time.monotonic()))
        return sum(not thread.is_alive() for thread in self._aborts.values())
