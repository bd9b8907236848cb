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


class ProgressReporter(Protocol):
    """Shows what a long task is doing."""

    def say(self, text: str) -> None:
        """Show this line in place of the one before."""


class Silent:
    """A progress reporter that shows nothing."""

    def say(self, text: str) -> None:
        pass


class Holder:
    """Holds at most one running world; ends everything when the kernel exits.

    `progress` makes the reporter for long tasks, and `prompt` says the number in the brackets of the running cell. The driver
    knows no notebook, so one puts its own here.
    """

    def __init__(self) -> None:
        self._world: World | None = None
        self.progress: Callable[[], AbstractContextManager[ProgressReporter]] = lambda: nullcontext(Silent())
        self.prompt: Callable[[], int] = lambda: 0
        self._server: ForkServer | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        atexit.register(self.close)

    @property
    def world(self) -> World | None:
        """The running world; None if there is none or it is stopped."""
        if self._world is not None and self._world.stopped:
            self._world = None
        return self._world

    @world.setter
    def world(self, world: World | None) -> None:
        self._world = world

    @property
    def running_server(self) -> ForkServer | None:
        """The fork server, if one was started."""
        return self._server

    def server(self) -> ForkServer:
        """The fork server, started now if none is up."""
        with self._lock:
            ended = self._server if self._server is not None and not self._server.alive else None
            if self._server is None or ended is not None:
                self._server = ForkServer()
            server = self._server
        if ended is not None:
            ended.close()  # its threads go too
        return server

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
