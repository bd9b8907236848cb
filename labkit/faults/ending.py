"""A rank that goes away: killed, stopped, raised, or done before the others."""

from __future__ import annotations

import os
import signal
from typing import Any

from .base import Expectation, Fault, Issue, LeaveCell, OneShot, PendingCall, PlannedFault, declare


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
            "The dead rank's variables are gone, those of the others are not."
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


class RankRaises(OneShot):
    """Raises in place of the call; the process stays alive and answers as before."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        raise PlannedFault(f"planned fault: rank {self.context.rank} raised instead of call {call.number}, {call.op}")


declare(
    Fault(
        name="rank-raises",
        title="One rank's code raises an exception",
        teaches=(
            "Here one rank's own code raises just before a collective, as it does on a bad sample, a missing file or a full GPU "
            "that only this rank has. "
            "In a notebook the rank's process lives on after an exception, so its connections stay open and the other ranks get "
            "no sign that it is not coming. "
            "They wait in the collective until the timeout. "
            "The hang looks like a network problem, and the cause is an ordinary traceback on another rank."
        ),
        cure=(
            "Read the traceback of the rank that raised and mend that line; where an error must be survived, catch it and let "
            "all ranks agree, with one all_reduce of a flag, whether to go on."
        ),
        demo=(
            "batch = torch.arange(4.0) + 10 * rank\n"
            "total = batch.sum()\n"
            "dist.all_reduce(total)\n"
            "mean = (total / (4 * world_size)).item()\n"
            "mean\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK003",)),
            "safe": Expectation("error", ("LK003", "LK014")),
        },
        make=RankRaises,
        in_schedule=Expectation("hang", ("LK003",)),
    )
)


class LeavesEarly(OneShot):
    """Ends the cell in place of the call, as a `break` out of its last loop would."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        raise LeaveCell


declare(
    Fault(
        name="leaves-early",
        title="One rank runs out of data and leaves early",
        teaches=(
            "Here one rank ends its loop a step before the others, as it does when the data set does not divide evenly and its "
            "share has one batch less. "
            "On that rank nothing is wrong: its cell ends and it is idle. "
            "The others make one more all_reduce, and they wait in it for a rank that has finished. "
            "It is the classic deadlock in the last step of an epoch, and it depends on the number of samples and of ranks."
        ),
        cure=(
            "Give every rank the same number of steps: drop_last=True or padding in the sampler, or the DDP context "
            "`with model.join():`, or an all_reduce that asks whether everybody still has data."
        ),
        demo=(
            "total = torch.zeros(1)\n"
            "for step in range(3):\n"
            "    part = torch.full((1,), float((rank + 1) * 10**step))\n"
            "    dist.all_reduce(part)\n"
            "    total += part\n"
            "total.item()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK007",)),
            "safe": Expectation("error", ("LK007", "LK014")),
        },
        make=LeavesEarly,
        in_schedule=Expectation("hang", ("LK007",)),
    )
)
