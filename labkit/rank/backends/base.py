"""What differs from backend to backend in a rank: how groups are made and ended, and how a wait is released."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ...backends import find
from ...registry import Registry


class RankBackend:
    """One backend in this rank; `facts` is its description for everybody. Made once for each rank.

    `name` is what torch is told, which may be a name of torch's own such as "nccl-legacy".
    """

    def __init__(self, name: str) -> None:
        self.name, self.facts = name, find(name)

    def start(self, run_dir: Path, rank: int) -> None:
        """Called before the backend's library starts in this process."""

    def group_options(self, device: str) -> dict[str, Any]:
        """More arguments for `init_process_group`."""
        return {}

    def making_group(self) -> AbstractContextManager[None]:
        """Around the making of every process group."""
        return nullcontext()

    def release(self, interrupt: Callable[[], object]) -> int:
        """End the waits of the main thread, from the control thread; how many connections were ended.

        Every variable is kept. `interrupt` sends the main thread its interrupt, for a backend where that must come first;
        the caller interrupts what is still busy afterwards.
        """
        raise NotImplementedError(f"{self.name} does not say how a wait is released")

    def before_destroy(self) -> None:
        """On the main thread, before torch destroys the groups: nothing may be left that torch would wait for."""

    def after_destroy(self) -> None:
        """The groups are gone."""

    def can_ask(self, op: str) -> bool:
        """Whether the work of an asynchronous `op` can be asked if it is done."""
        return True

    def has_failed(self, work: Any) -> bool:
        """Whether a completed work ended in an error."""
        return work.exception() is not None


RANK_BACKENDS: Registry[type[RankBackend]] = Registry("backend of a rank", "labkit.rank.backends")


def make_backend(name: str) -> RankBackend:
    """The backend of this rank by labkit's name or torch's."""
    return RANK_BACKENDS[find(name).name](name)
