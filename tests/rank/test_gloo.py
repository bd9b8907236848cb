"""Gloo's sockets cut from beside: the ones of a group, no others, whatever their numbers have become by then."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from labkit.rank.backends import gloo
from labkit.rank.backends.gloo import GroupSockets, open_sockets

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def joined() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as ends:
        near = ends.enter_context(socket.create_connection(server.getsockname()))
        far, _ = server.accept()
        ends.enter_context(far)
        far.settimeout(5)
        yield near, far


def inode(end: socket.socket) -> str:
    return os.readlink(f"/proc/self/fd/{end.fileno()}")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_groups_connection_is_cut(joined: Pair) -> None:
    near, far = joined
    group = GroupSockets()
    group._inodes = {inode(near)}
    before = descriptors()
    assert group.cut() == 1
    assert far.recv(1) == b""
    assert descriptors() == before


def test_others_are_left(joined: Pair) -> None:
    near, far = joined
    group = GroupSockets()
    with group.watching():
        pass
    assert group.cut() == 0
    near.sendall(b"x")
    assert far.recv(1) == b"x"


def test_a_connection_is_cut_while_its_group_is_being_made(joined: Pair) -> None:
    near, far = joined
    group = GroupSockets()
    with group.watching(), socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()
        assert group.cut() == 1
    near.sendall(b"x")
    assert far.recv(1) == b"x"


@pytest.mark.parametrize("kind", ["file", "closed", "another socket"])
def test_a_number_that_is_something_else_by_now(joined: Pair, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    near, _ = joined
    with ExitStack() as stack:
        other = stack.enter_context(open(os.devnull)) if kind == "file" else stack.enter_context(socket.socket())
        number = 10_000 if kind == "closed" else other.fileno()
        monkeypatch.setattr(gloo, "open_sockets", lambda: {inode(near): number})
        group = GroupSockets()
        group._inodes = {inode(near)}
        before = descriptors()
        assert group.cut() == 0
        assert descriptors() == before


def test_a_listener_of_a_group_is_nothing_to_hang_up(joined: Pair) -> None:
    group = GroupSockets()
    with group.watching(), socket.create_server(("127.0.0.1", 0)) as server:
        group._inodes |= {inode(server)}
        assert inode(server) in open_sockets()
        assert group.cut() == 0
