"""What the main thread is in: tells it, interrupts it, and frees a wait inside of a collective; every variable is kept."""

from __future__ import annotations

import linecache
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ...frames import is_users_file, package_of
from ...wire import Frame
from ..context import RankContext
from ..dispatch import CONTROL_OPS
from ..raised import handled_now
from ..sites import main_stack

GRACE_S = 0.05  # a wait that was cut raises by itself within this time
POLL_S = 0.002


@CONTROL_OPS.register("release")
def release(context: RankContext, *, reason: str = "", interrupt: bool = True) -> dict[str, int]:
    """Cut the groups' connections and interrupt the main thread if it is busy; how many connections were cut.

    `reason` is what a wait of safe mode raises with.
    """
    context.refuse(reason or "the cell was ended")
    return _cut(context, interrupt=interrupt)


def _cut(context: RankContext, *, interrupt: bool) -> dict[str, int]:
    busy_since_s = context.main_busy_since_s
    cut = context.backend.release((lambda: interrupt_main(context)) if interrupt else (lambda: False))
    # a wait that has just been cut raises by itself, and an interrupt on top would hide its message
    if interrupt and _still_busy(context, busy_since_s):
        interrupt_main(context)
    return {"cut": cut}


def _still_busy(context: RankContext, since_s: float) -> bool:
    """Whether the main thread is in the same request after the time that a cut wait gets."""
    end_s = time.monotonic() + GRACE_S
    while since_s and context.main_busy_since_s == since_s:
        if time.monotonic() >= end_s:
            return True
        time.sleep(POLL_S)
    return False


@CONTROL_OPS.register("refuse")
def refuse(context: RankContext, *, reason: str, request_id: int, hint: str = "") -> None:
    """Safe mode: whoever waits, in request `request_id`, for a member that will not come raises and says why.

    `hint` is what to do next.
    """
    if context.request_id == request_id:
        context.refuse(reason, hint, told=True)


@CONTROL_OPS.register("end_wait")
def end_wait(context: RankContext, *, request_id: int) -> dict[str, int]:
    """Safe mode: end a wait inside of a call that was issued, after `refuse` has told why; the groups are broken then.

    A main thread that computes, or rests anywhere else (it sleeps, reads a file, waits for a worker), is left alone.
    """
    if context.request_id != request_id or not context.main_busy_since_s:
        return {"cut": 0}
    if context.tap.in_contract or not rests_in_torch(main_stack()) or not main_thread_idle():
        return {"cut": 0}
    context.wait_cut = True
    return _cut(context, interrupt=True)


@CONTROL_OPS.register("interrupt_main")
def interrupt_main(context: RankContext) -> bool:
    """Interrupt the main thread and leave the connections; False if it is not busy."""
    busy = bool(context.main_busy_since_s)
    if busy:
        os.kill(os.getpid(), signal.SIGINT)
    return busy


_HERE = str(Path(__file__).resolve().parent.parent)  # what stands around torch's functions: the tap, the notes
LOOK_S = 0.02
PROCESS_LOOK_S = 0.03
IDLE_BELOW = 0.25  # share of a processor; a loop that polls with short sleeps stays under it


@CONTROL_OPS.register("state")
def state(context: RankContext, *, stack: bool = True) -> dict[str, Any]:
    """Stack of the main thread, the last cell's error, and whether the main thread is busy."""
    open_calls = context.tap.open_calls
    open_calls.sweep()
    busy = bool(context.main_busy_since_s)
    before = kernel_call()
    waits = busy and len(open_calls) > 0 and main_thread_idle()
    if waits and not context.backend.facts.returns_at_once and sleeps_elsewhere(before, kernel_call()):
        waits = False
    return {
        "blocked": context.tap.in_contract or waits,
        "formed": dist.is_initialized() and not context.missing_names(),  # else recovery forms new groups and restores them
        "stack": main_stack() if stack else [],
        "error": context.error,
        "handling": handled_now() if busy else None,
        "thread_error": context.threads.newest,
        "caught": context.caught.newest,
        "busy": bool(context.main_busy_since_s),
        "cell": context.cell,
        "generation": context.generation,
        "mode": context.mode,
    }


def main_thread_idle() -> bool:
    """Whether the main thread uses (nearly) no processor time while it is looked at."""
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return _idle(lambda: time.clock_gettime(clock), LOOK_S)


FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine(), "")  # the kernel's number for a wait for another thread


def sleeps_elsewhere(before: str, after: str) -> bool:
    """Whether one call of the kernel lasted from one look to the next, and is no wait for another thread, as gloo's waits are.

    A sleep, a read and a wait for a child are such calls. Who polls with short sleeps is in many calls, one after the other.

    >>> sleeps_elsewhere("230 0x0 switches: 7", "230 0x0 switches: 7"), sleeps_elsewhere("230 0x0 n: 7", "230 0x0 n: 9")
    (True, False)
    """
    return bool(FUTEX and before) and before == after and before.partition(" ")[0] not in (FUTEX, "running")


def kernel_call() -> str:
    """The kernel's call that the main thread is in, its arguments, and how often it has slept so far; "" if that is hidden."""
    task = Path(f"/proc/self/task/{threading.main_thread().native_id}")
    try:
        switches = next(line for line in (task / "status").read_text().splitlines() if line.startswith("voluntary"))
        return f"{(task / 'syscall').read_text()} {switches}"
    except (OSError, StopIteration):
        return ""


@CONTROL_OPS.register("process_idle")
def process_idle() -> bool:
    """The same of the whole process: gloo moves bytes in a thread of its own."""
    return _idle(time.process_time, PROCESS_LOOK_S)


def rests_in_torch(stack: Sequence[Frame]) -> bool:
    """Whether the innermost frame is torch's, one around torch's here, a `wait`, or a learner's line that waits for a handle.

    >>> rests_in_torch([Frame("cell 7", 2, "save"), Frame("/lib/python3.11/site-packages/torch/autograd/graph.py", 8, "run")])
    True
    >>> rests_in_torch([Frame("cell 7", 2, "save"), Frame("/lib/python3.11/selectors.py", 8, "select")])
    False
    """
    if not stack:
        return False
    last = stack[-1]
    line = linecache.getline(last.file, last.line) if is_users_file(last.file) else ""
    waits = last.name in ("wait", "synchronize", "result") or ".wait(" in line
    around = last.file.startswith(_HERE)
    return waits or around or (package_of(last.file) == "torch" and "/torch/utils/data/" not in last.file)


def _idle(used_s: Callable[[], float], look_s: float) -> bool:
    before_s, began_s = used_s(), time.monotonic()
    time.sleep(look_s)
    return used_s() - before_s < IDLE_BELOW * (time.monotonic() - began_s)
