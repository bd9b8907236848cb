"""The words that all parts share: states and endings as enums, and the errors that say a process group is broken.

Each member is a string, so a record holds it as text, and a file or a message written by another version reads back.
What the kernel and a rank's engine must agree on is here too: the engine's command line, and the names that a rank begins with.
"""

from __future__ import annotations

import re
from enum import StrEnum


class ProcessState(StrEnum):
    """A process as the operating system sees it."""

    RUNNING = "running"
    STOPPED = "stopped"  # by SIGSTOP, or by a debugger
    DEAD = "dead"
    UNKNOWN = "unknown"


class Activity(StrEnum):
    """What a rank does: it waits for a cell, runs one, or is inside its last call."""

    IDLE = "idle"
    CELL = "cell"
    CALL = "call"


class RankState(StrEnum):
    """What a rank's card shows: its mark and its colour follow from this word alone."""

    STARTING = "starting"
    IDLE = "idle"
    RAISED = "raised"  # idle, and its last cell ended with an error of its own
    CUT_OFF = "cut off"  # idle, and its last cell ended by what another rank did
    UNREACHABLE = "unreachable"  # the controller is stopped or gone: nobody can know what the rank does
    RUNNING = "running"  # a cell, outside of any call
    WAITING = "waiting"  # inside a call
    STUCK = "stuck"  # inside a call of groups that are broken
    STOPPED = "stopped"
    DEAD = "dead"
    ENDED = "ended"  # the world is stopped


class CallState(StrEnum):
    """How far a call has come."""

    BEGUN = "begun"  # made, and not issued yet
    ISSUED = "issued"
    DONE = "done"
    FAILED = "failed"  # its wait ended without it
    REFUSED = "refused"  # by the contract, before anything was sent
    INVALID = "invalid"  # torch turned it down before it waited for any rank


PENDING = (CallState.ISSUED, CallState.FAILED, CallState.REFUSED)  # states of a call that did not complete


class Status(StrEnum):
    """What became of a request on one rank."""

    OK = "ok"
    ERROR = "error"  # its code raised
    INTERRUPTED = "interrupted"
    LATE = "late"  # no answer by the deadline
    STUCK = "stuck"  # it can't answer any more: the cell was ended before its deadline
    DEAD = "dead"


class Ending(StrEnum):
    """How a cell ends for the learner."""

    HANG = "hang"
    ABORT = "abort"  # a process died
    ERROR = "error"
    SILENT = "silent"  # wrong numbers, and no error
    SLOW = "slow"


class Standing(StrEnum):
    """Where a rank stands while others wait for it."""

    DEAD = "dead"
    STOPPED = "stopped"
    WAITING = "waiting"
    RAISED = "raised"
    UNASKED = "unasked"  # the cell was not sent to it
    FINISHED = "finished"
    PYTHON = "python"  # at work outside of any call
    UNBEGUN = "unbegun"  # the cell was sent to it, and it has not begun


# ---- errors that other ranks cause
_TORCH = r"(?:torch\.distributed\.)?(?:RuntimeError|ConnectionError|TimeoutError|Dist(?:Backend|Network|Store)?Error)"
_PLACE = r"(?:\[[^]\n]*\]:? ?)*"  # "[.../gloo/transport/tcp/pair.cc:546] "
_CONNECTION = (
    r"Connection (?:closed|reset|refused)|Timed out waiting|Application timeout|Operation timed out|Broken pipe|Socket closed"
    r"|(?:Socket T|T)imeout|wait timeout|[Ff]ailed to recv|Read error|Write error|recv\(\) failed|send\(\) failed"
)
_NCCL = r"NCCL error|NCCL communicator was aborted|[Cc]ommunicator was aborted|unhandled system error|Watchdog caught"
# torch says these later in a sentence
_ELSEWHERE = r"[^\n]*(?:caused pair closure|process group has been|(?:failed to pass|successfully reached) monitoredBarrier)"
_BROKEN = re.compile(rf"^{_TORCH}: {_PLACE}(?:{_CONNECTION}|{_NCCL}|{_ELSEWHERE})", re.MULTILINE)
_CAUSED = re.compile(
    r"^(?:labkit\.errors\.)?ContractError\b|^KeyboardInterrupt\b|^RuntimeError: \w+ was held back and never issued", re.MULTILINE
)


def breaks_groups(error: str) -> bool:
    """Whether an error, as text ("RuntimeError: ..."), says that a process group's connections are broken.

    The type must be one of torch's, and the message begin with a sentence of gloo's, NCCL's or the store's. What a learner
    writes in an exception of their own is not looked at.

    >>> breaks_groups("RuntimeError: [/gloo/transport/tcp/pair.cc:546] Connection closed by peer [127.0.0.1]:4711")
    True
    >>> breaks_groups("ValueError: NCCL is not for this model"), breaks_groups("RuntimeError: no NCCL here")
    (False, False)
    """
    return bool(_BROKEN.search(error))


def is_consequence(error: str) -> bool:
    """Whether an error, as text, follows from what another rank did, from safe mode, or from an interrupt.

    >>> is_consequence("ContractError: the ranks do not agree"), is_consequence("ValueError: bad batch")
    (True, False)
    """
    return breaks_groups(error) or bool(_CAUSED.search(error))


OWN_NAMES = ("rank", "world_size", "device", "torch", "dist")  # a rank's variables that are labkit's, not the learner's


def engine_arguments(rank: int, run_dir: str) -> list[str]:
    """Options of ipyparallel's engine: its id is the rank, it starts no helper of its own, and it boots as a rank.

    >>> engine_arguments(2, "/tmp/w")[1]
    '--IPEngine.id=2'
    """
    boot = "__import__('labkit.rank.boot', fromlist=['install']).install()"
    return [
        f"--profile-dir={run_dir}",
        f"--IPEngine.id={rank}",
        "--IPEngine.enable_nanny=False",
        "--IPEngine.wait_for_url_file=30",
        f"--IPEngine.startup_command={boot}",
        "--log-level=ERROR",
    ]
