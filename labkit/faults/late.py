"""A rank that comes late: slow, busy in Python, or in C code that holds the interpreter lock."""

from __future__ import annotations

import collections
import ctypes
import itertools
import time
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare


class Slow(OneShot):
    """Sleeps, then makes the call."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        time.sleep(self.params["delay_s"])
        return issue(call)


declare(
    Fault(
        name="slow",
        title="One rank comes late to a collective",
        teaches=(
            "A collective is done when the last rank has come, so the slowest rank sets the pace of all. "
            "Here one rank is a straggler: it comes late, as with a slow disk, a longer batch or a GPU that is throttled. "
            "The result is right, and every rank loses the same time, so the lost time alone does not say who was late. "
            "What tells is the moment at which each rank entered the collective: the last one in is the late one."
        ),
        cure=(
            "Compare when each rank entered the collective, not how long it stayed; then give the late rank less work or a "
            "faster way to its data."
        ),
        demo=(
            "import time\n"
            "x = torch.full((4,), float(rank + 1))\n"
            "start = time.perf_counter()\n"
            "dist.all_reduce(x)\n"
            "print(f'rank {rank}: {time.perf_counter() - start:.2f} s in all_reduce')\n"
            "x.tolist()\n"
        ),
        expect={
            "raw": Expectation("slow", ("LK011",)),
            "safe": Expectation("slow", ("LK011",)),
        },
        make=Slow,
        params={"delay_s": Param(1.5, "how late the rank comes, in seconds", low=0.0, high=3600)},
        in_schedule=Expectation("slow", ("LK011",)),
    )
)


class BusyPython(OneShot):
    """Spins in Python, then makes the call; an interrupt ends it at once."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        until = time.monotonic() + self.params["seconds"]
        while time.monotonic() < until:
            pass
        return issue(call)


declare(
    Fault(
        name="busy-python",
        title="One rank is busy in a loop of Python code",
        teaches=(
            "Here one rank is still busy with something of its own when the others are already in the collective, as with a "
            "retry loop that never succeeds, or a tokeniser that got a huge file on this rank only. "
            "The others wait, and they look stuck in the network, but they are the healthy ones. "
            "The busy rank uses a whole processor core and its stack shows the loop, not a collective. "
            "Its other threads still run, so it answers requests, and an interrupt ends the loop."
        ),
        cure=(
            "Look at the stack of the rank that is not in the collective and mend that loop: give it an end, or spread the work "
            "evenly before the collective."
        ),
        demo=(
            "counts = torch.tensor([float(rank + 1), 1.0])\n"
            "dist.all_reduce(counts)\n"
            "total, ranks_seen = counts.tolist()\n"
            "total / ranks_seen\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK010",)),
            "safe": Expectation("error", ("LK010", "LK014")),
        },
        make=BusyPython,
        params={"seconds": Param(3600.0, "how long the loop runs", low=0.01, high=86400)},
        in_schedule=Expectation("hang", ("LK010",)),
    )
)


_NAP_US = 10_000


class HoldsGil(OneShot):
    """Naps in C without giving the lock back.

    PyDLL keeps the lock during a call. The loop over the naps is in C as well (deque over map): a loop in
    Python would look for signals and for threads that want the lock between two naps. A signal only ends
    the nap it falls into. So no other Python thread runs and no Python signal handler does.
    """

    def act(self, call: PendingCall, issue: Issue) -> Any:
        nap = ctypes.PyDLL(None).usleep
        nap.argtypes = [ctypes.c_uint]
        count = max(1, round(self.params["seconds"] * 1_000_000 / _NAP_US))
        collections.deque(map(nap, itertools.repeat(_NAP_US, count)), maxlen=0)
        return issue(call)


declare(
    Fault(
        name="holds-gil",
        title="One rank holds Python's interpreter lock in C code",
        teaches=(
            "Python runs one thread at a time: the one that holds the interpreter lock. "
            "C code may keep that lock for as long as it likes, as a badly written extension, a huge regular expression or a "
            "blocking driver call does. "
            "Here one rank does so before a collective: none of its other threads gets a turn, so it answers no message, and an "
            "interrupt is noted but never handled. "
            "From the others it looks like a hang in the collective; from outside the process is alive and yet mute."
        ),
        cure=(
            "Find the C function with py-spy, which needs no help from the process; call it in a process of its own, in smaller "
            "pieces, or in a version that releases the lock while it waits."
        ),
        demo=(
            "weights = torch.full((4,), float(rank + 1))\n"
            "dist.broadcast(weights, src=0)\n"
            "dist.all_reduce(weights)\n"
            "weights.tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK010",)),
            "safe": Expectation("error", ("LK010", "LK014")),
        },
        make=HoldsGil,
        params={"seconds": Param(3600.0, "how long the lock is held", low=0.01, high=86400)},
        replaces_rank=True,
        in_schedule=Expectation("hang", ("LK010",)),
    )
)
