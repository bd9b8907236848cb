"""Our own processes as the operating system sees them: state, memory, signals. Only ever by recorded pid."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from ..processes import state_of_pid


class ScriptedPid(int):
    """The pid of a rank that is no process but part of a scripted world: it says itself how it is, and is never signalled."""

    state = "running"

    def receive(self, number: signal.Signals) -> bool:
        """What the system would do with a signal; False if the process is gone."""
        if self.state == "dead":
            return False
        self.state = {signal.SIGSTOP: "stopped", signal.SIGCONT: "running", signal.SIGKILL: "dead"}.get(number, self.state)
        return True


def process_state(pid: int) -> str:
    """ "running", "stopped" or "dead" ("unknown" where the system does not say)."""
    if isinstance(pid, ScriptedPid):
        return pid.state
    return state_of_pid(pid)


def memory_bytes(pid: int) -> int:
    """Memory of a process that is its own (its share of shared pages counted in), 0 if it is gone."""
    if isinstance(pid, ScriptedPid):
        return 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or gone: ask psutil below
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False if the process is gone."""
    if isinstance(pid, ScriptedPid):
        return pid.receive(number)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
