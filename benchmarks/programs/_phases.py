"""Where the time of a start goes: labkit's own steps, wrapped with a clock for as long as one start takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from labkit.driver.cluster import Cluster
from labkit.driver.forkserver import ForkServer


class Phases:
    """Seconds by phase; `entered_s` is when this program's first line ran, on the monotonic clock."""

    def __init__(self, entered_s: float) -> None:
        self.taken: dict[str, float] = {"import labkit": time.monotonic() - entered_s}
        self._server: ForkServer | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block as `name`."""
        began = time.monotonic()
        yield
        self.taken[name] = time.monotonic() - began

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Inside, every step of a start is timed."""
        steps: list[tuple[type[Any], str, str]] = [
            (Cluster, "_launch", "the ranks are forked (after the import)"),
            (Cluster, "_start_store", "store"),
            (Cluster, "_await", "ranks come up"),
            (Cluster, "form", "form the group"),
        ]
        began = time.monotonic()
        with ExitStack() as stack:
            for owner, method, name in steps:
                stack.enter_context(patch.object(owner, method, self._timed(getattr(owner, method), name)))
            stack.enter_context(patch.object(ForkServer, "_take", self._noting_ready(ForkServer._take, began)))
            yield

    def _timed(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return original(*args, **kwargs)

        return timed

    def _noting_ready(self, original: Callable[..., Any], began: float) -> Callable[..., Any]:
        def take(server: Any, message: dict[str, Any]) -> None:
            if "ready" in message:
                self.taken[f"fork server ready for a {message['ready']}"] = time.monotonic() - began
            original(server, message)

        return take
