"""One rank holds Python's interpreter lock inside C code."""

from __future__ import annotations

import collections
import ctypes
import itertools
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare

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
