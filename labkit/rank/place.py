"""Where this process's network is: on a host of its own, if the kernel has said so before it was started.

A host is a network namespace, held by a process whose pid is in LABKIT_HOST_PID (see driver/spaces.py). A namespace
is a thread's, and a thread starts in its maker's. So an engine first reaches its controller from where the kernel is,
and its main thread moves when it forms its first group: gloo's and NCCL's threads, and what a cell starts, come from it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

HOLDER = "LABKIT_HOST_PID"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_DUMPABLE = 4


def join_user(env: Mapping[str, str] = os.environ) -> None:
    """Become one of the holder's users, where an ordinary user may enter its network. Before there is a second thread."""
    holder = env.get(HOLDER)
    if not holder or not os.path.exists(f"/proc/{holder}"):  # noqa: PTH110 - a fork's first steps: nothing is imported
        return
    if os.readlink("/proc/self/ns/user") == os.readlink(f"/proc/{holder}/ns/user"):  # noqa: PTH115
        return
    _enter(f"/proc/{holder}/ns/user", _CLONE_NEWUSER)
    # the change made this process unreadable for others of the same user: no status, no stack
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def join_network(env: Mapping[str, str] = os.environ) -> None:
    """Move this thread, and every one it will start, to the host."""
    holder = env.get(HOLDER)
    if holder:
        _enter(f"/proc/{holder}/ns/net", _CLONE_NEWNET)


@contextmanager
def without_name_server() -> Iterator[None]:
    """Inside, this thread asks no name server: an address without an entry in /etc/hosts has no name.

    A TCPStore's client looks up the name of the address it connects to, for its log. The address is ::ffff:127.0.0.1, which
    /etc/hosts does not list, so the question goes to the name server, and each answer that is lost costs 5 s.
    """
    servers = _name_servers()
    if servers is None:
        yield
        return
    kept, servers.value = servers.value, 0
    try:
        yield
    finally:
        servers.value = kept


def _name_servers() -> ctypes.c_int | None:
    """How many name servers glibc's resolver asks in this thread: `nscount` of its `struct __res_state`; None elsewhere."""
    libc = ctypes.CDLL(None)
    try:
        find, initialise = libc.__res_state, libc.__res_init
    except AttributeError:
        return None
    find.restype = ctypes.c_void_p
    state = find()  # int retrans, int retry, unsigned long options, int nscount, ...
    if not ctypes.c_ulong.from_address(state + 8).value & 1:  # RES_INIT: it has been filled in
        initialise()
    return ctypes.c_int.from_address(state + 16)


def _enter(path: str, kind: int) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        _end("the process that holds its host has exited; world.stop(), and start a new world")
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, kind) != 0:
        _end(f"it can't enter its host: {os.strerror(ctypes.get_errno())}")
    os.close(descriptor)


def _end(text: str) -> NoReturn:
    """The last line of a rank's log is what the kernel says of it. Not an exception: an engine's shell would live on."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    os._exit(1)
