"""gloo in a rank: its sockets are found when a group is made, and shut down when a wait must end.

A gloo wait ends only when its peer answers, dies or closes the connection. Shutting down this process's own end closes it:
every rank that waits gets an ordinary RuntimeError within milliseconds, and keeps all of its variables. A rank that waits
for the others while it makes a group waits in its client of the store, which is a socket of the groups too. Only sockets
that appeared while a group was being made are touched, and only if the descriptor still is the same socket: the engine's own
connections must live.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .base import RANK_BACKENDS, RankBackend


@RANK_BACKENDS.register("gloo")
class GlooRank(RankBackend):
    """Waits are released by shutting the groups' connections down."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sockets = GroupSockets()

    def making_group(self) -> AbstractContextManager[None]:
        """Sockets that appear now belong to the groups."""
        return self.sockets.watching()

    def release(self, interrupt: Callable[[], object]) -> int:
        """A wait that was cut raises by itself; an interrupt on top would hide its message, so none is sent here."""
        return self.sockets.cut()

    def before_destroy(self) -> None:
        """Peers that still wait for this rank learn that it has gone."""
        self.sockets.cut()

    def after_destroy(self) -> None:
        """The groups' sockets are closed, and their numbers may be used again."""
        self.sockets.forget()

    def can_ask(self, op: str) -> bool:
        """The work of isend and irecv can't be asked; that of a reduce-scatter says no, whatever has become of it."""
        return op not in ("send", "recv") and not op.startswith("reduce_scatter")

    def has_failed(self, work: Any) -> bool:
        """gloo keeps the error for whoever waits; the wait for a completed work returns at once."""
        try:
            work.wait()
        except RuntimeError:
            return True
        return False


def open_sockets() -> dict[str, int]:
    """This process's sockets: inode name -> descriptor."""
    found: dict[str, int] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - called while a collective waits: keep it cheap
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except OSError:  # the descriptor listdir itself used
            continue
        if target.startswith("socket:"):
            found[target] = int(name)
    return found


class GroupSockets:
    """The sockets that process groups opened, by inode."""

    def __init__(self) -> None:
        self._inodes: set[str] = set()
        self._makings: list[set[str]] = []  # what was there before, of every group that is being made

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sockets that appear inside this block belong to a group, also while it is being made."""
        before = set(open_sockets())
        self._makings.append(before)
        try:
            yield
        finally:
            self._inodes |= set(open_sockets()) - before
            self._makings.remove(before)

    def _ours(self, inode: str) -> bool:
        return inode in self._inodes or any(inode not in before for before in self._makings)

    def forget(self) -> None:
        """The groups are gone; so are their sockets."""
        self._inodes.clear()

    def cut(self) -> int:
        """Shut the groups' TCP connections down; returns how many. Safe from any thread."""
        count = 0
        for inode, descriptor in open_sockets().items():
            if not self._ours(inode):
                continue
            try:
                copy = os.dup(descriptor)
            except OSError:
                continue
            try:
                count += self._shut(copy, inode)
            finally:
                os.close(copy)
        return count

    def _shut(self, descriptor: int, inode: str) -> int:
        """Shut one connection down, by a descriptor of our own; 1 if it was one of the groups' and still up."""
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}") != inode:  # noqa: PTH115 - closed, and its number used again
                return 0
            with socket.socket(fileno=os.dup(descriptor)) as end:
                if end.family not in (socket.AF_INET, socket.AF_INET6):
                    return 0
                end.getpeername()
                end.shutdown(socket.SHUT_RDWR)
        except OSError:  # not connected (a listener), or closed meanwhile
            return 0
        return 1
