"""One rank's process is stopped."""

from __future__ import annotations

import os
import signal
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class Stopped(OneShot):
    """Sends SIGSTOP to its own process; if somebody sends SIGCONT it makes the call after all."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        return issue(call)


declare(
    Fault(
        name="stopped",
        title="One rank's process is stopped",
        teaches=(
            "Here one rank's process is frozen, as by Ctrl-Z, a debugger that attached to it, or a batch system that suspends "
            "a job. "
            "It is not dead: its memory and its connections are there, so the others get no error and wait in their collective. "
            "A frozen process answers nothing, neither a message nor SIGTERM; only its state, read from outside, shows it. "
            "If SIGCONT comes before the timeout, it goes on as if nothing had happened, and so do the others."
        ),
        cure=(
            "Wake the process with SIGCONT, or replace it with SIGKILL and a new one; then look for who stops it, often a "
            "debugger or a scheduler."
        ),
        demo=(
            "share = torch.full((3,), float(rank))\n"
            "parts = [torch.zeros(3) for _ in range(world_size)]\n"
            "dist.all_gather(parts, share)\n"
            "[part[0].item() for part in parts]\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK002",)),
            "safe": Expectation("error", ("LK002", "LK014")),
        },
        make=Stopped,
        replaces_rank=True,
        in_schedule=Expectation("hang", ("LK002",)),
    )
)
