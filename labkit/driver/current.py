"""The one world of this kernel, and the fork server that outlives worlds."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from ..errors import NoWorld
from .forkserver import ForkServer

if TYPE_CHECKING:
    from .world import World


class Teller(Protocol):
    """Shows what is going on for as long as it takes."""

    def say(self, text: str) -> None:
        """What is going on now; replaces what was said before."""


class Silent:
    """A teller for where nobody listens."""

    def say(self, text: str) -> None:
        pass


class Holder:
    """Holds at most one running world; ends everything when the kernel exits.

    `telling`: how whoever holds the world shows what takes long. The driver draws nothing, so a notebook puts its own here.
    """

    def __init__(self) -> None:
        self.world: World | None = None
        self.telling: Callable[[], AbstractContextManager[Teller]] = lambda: nullcontext(Silent())
        self._server: ForkServer | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        atexit.register(self.close)

    def server(self) -> ForkServer:
        """The fork server, started now if none is up."""
        with self._lock:
            if self._server is None or not self._server.alive:
                self._server = ForkServer()
            return self._server

    def drop_server(self) -> None:
        """Give the fork server up: the next start makes a new one."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def close(self) -> None:
        """Stop the world and the fork server; does nothing in a fork of this process."""
        if os.getpid() != self._owner:
            return
        if self.world is not None:
            self.world.stop()
        self.drop_server()


HOLDER = Holder()


def current() -> World:
    """The running world; NoWorld if there is none."""
    if HOLDER.world is None:
        raise NoWorld("no world is running", hint="start one with labkit.start()")
    return HOLDER.world


def warm() -> None:
    """Bring the fork server up in the background, so that a start later is quick."""
    HOLDER.server()
