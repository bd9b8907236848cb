"""Where a rank's network is, and whom it asks for names."""

from __future__ import annotations

import ctypes
import socket
import threading
from contextlib import suppress

import pytest

from labkit.rank import place


def servers() -> int:
    found = place._name_servers()
    assert found is not None
    return found.value


@pytest.fixture
def resolver() -> int:
    if place._name_servers() is None:
        pytest.skip("not glibc")
    return servers()


def test_inside_no_name_server_is_asked_and_afterwards_all_are_again(resolver: int) -> None:
    with suppress(ValueError), place.without_name_server():
        assert servers() == 0
        raise ValueError
    assert servers() == resolver


def test_other_threads_go_on_asking(resolver: int) -> None:
    seen: list[int] = []
    with place.without_name_server():
        thread = threading.Thread(target=lambda: seen.append(servers()))
        thread.start()
        thread.join()
    assert seen == [resolver]


def test_a_name_server_that_does_not_answer_delays_nothing(resolver: int) -> None:
    if not resolver:
        pytest.skip("no name server is set up")
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # takes questions and never answers
    deaf.bind(("127.0.0.1", 0))
    took: list[bool] = []

    def ask() -> None:
        found = place._name_servers()
        assert found is not None
        # `struct sockaddr_in nsaddr_list[]` follows nscount, aligned to 4 bytes
        address = deaf.getsockname()
        raw = socket.AF_INET.to_bytes(2, "little") + address[1].to_bytes(2, "big") + socket.inet_aton(address[0])
        ctypes.memmove(ctypes.addressof(found) + 4, raw, len(raw))
        with place.without_name_server(), suppress(socket.gaierror):
            socket.getnameinfo(("::ffff:127.0.0.1", 80), 0)
        deaf.settimeout(0.2)
        try:
            took.append(bool(deaf.recv(512)))
        except TimeoutError:
            took.append(False)

    thread = threading.Thread(target=ask)  # the resolver's state is a thread's own
    thread.start()
    thread.join()
    deaf.close()
    assert took == [False]
