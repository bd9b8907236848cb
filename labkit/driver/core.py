"""What an instrument may use of a world: requests to the ranks, looks at them, and one judgement of a look.

`WorldCore` is the whole of it. An instrument is a function whose first argument is a WorldCore; `@instrument` makes
it a method of every world. Nothing else of a world is meant for instruments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..errors import UnknownName
from ..registry import Registry, unknown
from ..wire import CellResult, CodeError, Diagnosis, Evidence, Injection, Outcome, RecoveryReport, WorldStatus
from .injection import ActiveInjection

Run = TypeVar("Run", bound=Callable[..., Any])
ENTRY_POINTS = "labkit.instruments"
INSTRUMENTS: Registry[Callable[..., Any]] = Registry("instrument", "labkit.instruments", entry_points=ENTRY_POINTS)


def instrument(run: Run) -> Run:
    """Register a function over a WorldCore under its own name: `world.<name>(...)` calls it.

    >>> @instrument
    ... def count_ranks(world: WorldCore) -> int:
    ...     return world.world_size
    """
    INSTRUMENTS.add(run.__name__, run)
    return run


class NoInstrument(UnknownName, AttributeError):
    """A world has no method or instrument of this name."""


def find_instrument(name: str) -> Callable[..., Any]:
    """The instrument of this name; NoInstrument, which is also an AttributeError, says which name is near."""
    if name.startswith("_"):
        raise AttributeError(name)
    if name in INSTRUMENTS:
        return INSTRUMENTS[name]
    near = unknown("instrument", name, [*INSTRUMENTS, *METHODS])
    raise NoInstrument(f"a world has no {name!r}", hint=near.hint, **near.facts)


METHODS = ("diagnose", "inject", "interrupt", "recover", "run", "run_cell", "set_mode", "status", "stop", "try_fault")


@dataclass(frozen=True)
class Replies:
    """What ranks answered to one request, in rank order; `buffers` are the raw bytes that came with each answer."""

    outcomes: tuple[Outcome, ...]
    buffers: tuple[list[bytes], ...] = ()
    diagnosis: Diagnosis | None = None
    seconds: float = 0.0


class Seat(Protocol):
    """A rank's process, as the kernel knows it."""

    rank: int
    pid: int
    exit_code: int | None
    device: str
    host: str


class WorldCore(Protocol):
    """The requests of a world.

    >>> def ping(world: WorldCore) -> tuple[float, ...]:
    ...     return tuple(outcome.value for outcome in world.request("ping", {}).outcomes)
    """

    mode: str
    deadline_s: float
    cell: int
    stopped: bool
    started_in_s: float

    @property
    def world_size(self) -> int: ...

    @property
    def backend(self) -> str:
        """ "gloo" or "nccl"."""
        ...

    @property
    def launcher(self) -> str:
        """How the ranks' processes were started: "fork", "subprocess", or another name in a test."""
        ...

    @property
    def generation(self) -> int: ...

    @property
    def hosts(self) -> tuple[int, ...]:
        """The host that each rank is on; empty where all ranks share this machine as it is."""
        ...

    @property
    def links(self) -> tuple[str, str]:
        """Rate and delay of the links between hosts as they were asked for, such as ("200mbit", "2ms"); "" for none."""
        ...

    @property
    def folder(self) -> Path:
        """The world's private folder."""
        ...

    @property
    def broken(self) -> str:
        """Since when the process groups no longer work ("since cell 3"); "" while they do."""
        ...

    @property
    def seats(self) -> Sequence[Seat]: ...

    @property
    def injections(self) -> list[Injection]: ...

    def unfired(self) -> list[ActiveInjection]:
        """The faults that are armed and have not fired."""
        ...

    def source(self, cell: int) -> str:
        """The code of a rank cell by its number; "" if there is none."""
        ...

    def request(
        self, op: str, payload: Mapping[str, Any], ranks: Sequence[int] | int | None = None, *, deadline_s: float | None = None,
        buffers: Sequence[bytes] = (), may_fail: bool = False,
    ) -> Replies:  # fmt: skip
        """Run a rank op with one payload on all ranks, or on `ranks`, and wait for the answers.

        Raises for the first rank on which it failed, unless `may_fail`; RankBusy or RankDead if a rank can't take it.
        """
        ...

    def request_each(
        self, op: str, payloads: Sequence[Mapping[str, Any]], *, deadline_s: float | None = None,
        may_resolve: frozenset[str] | None = None, must_answer: bool = False,
    ) -> Replies:  # fmt: skip
        """Run a rank op on all ranks, each with its own payload, watched like a cell: a hang ends with a diagnosis.

        With `must_answer` a failure raises, with the verdict's sentence if there is one. An interrupt frees the ranks.
        """
        ...

    def look(self, *, ask: bool = True) -> Evidence:
        """What every rank is doing now; without `ask` only from the beacons, which costs the ranks nothing."""
        ...

    def judge(self, evidence: Evidence) -> Diagnosis: ...

    def status(self) -> WorldStatus: ...

    def note(self, result: CellResult, evidence: Evidence | None = None) -> None:
        """Take in how a request ended: whether the groups still work, and what armed faults did."""
        ...

    def raised(self, rank: int) -> CodeError | None:
        """What ended the newest cell on this rank by its own fault, until the ranks are recovered."""
        ...

    def made_now(self, evidence: Evidence) -> bool:
        """Whether any rank has made a call in the newest request."""
        ...


class Listener(Protocol):
    """Hears what happens in a world; a lab's record is one."""

    def saw(self, world: WorldCore, result: CellResult | None = None, evidence: Evidence | None = None) -> None: ...

    def recovered(self, world: WorldCore, report: RecoveryReport) -> None: ...
