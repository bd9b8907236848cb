"""One rank's process is killed."""

from __future__ import annotations

import os
import signal
from typing import Any

from .base import Expectation, Fault, Issue, OneShot, PendingCall, declare


class Killed(OneShot):
    """Sends SIGKILL to its own process: no handler runs and nothing is flushed."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        return issue(call)


declare(
    Fault(
        name="killed",
        title="One rank's process is killed",
        teaches=(
            "Here the operating system kills one rank's process in the middle of the cell, as it does when memory runs out "
            "or a batch system ends the job. "
            "The process cannot react: none of its Python code runs any more. "
            "Ranks that were talking to it see their connection close and raise a RuntimeError within milliseconds; a rank whose "
            "partners in this collective are all alive sees nothing and waits. "
            "The dead rank's variables are gone with it, those of the others are not. labkit has a copy of them from before the "
            "cell, and restores it; a job has only its checkpoints."
        ),
        cure=(
            "Find out who killed it (exit code -9 is often the kernel's out-of-memory killer) and make the rank smaller; keep "
            "checkpoints, because a process that is killed can't save anything."
        ),
        demo=("loss = torch.tensor([float(rank + 1)])\ndist.all_reduce(loss)\n(loss / world_size).item()\n"),
        expect={
            "raw": Expectation("abort", ("LK001",)),
            "safe": Expectation("abort", ("LK001", "LK014")),
        },
        make=Killed,
        replaces_rank=True,
        in_schedule=Expectation("abort", ("LK001",)),
    )
)
