"""What a rank knows of itself: the one object that all of its parts share.

A rank is one process, so there is one context per process; `install` makes it and everything else is
handed it. Nothing else in `rank/` keeps run state.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ring import RingWriter
from ..wire import CodeError
from .backends import RankBackend, make_backend
from .caught import Caught
from .held import HeldSignals
from .raised import ThreadErrors


@dataclass
class RankContext:
    """Identity, place, generation and what the rank is at.

    `namespace` is the learner's; `main_busy_since_s` is set while the main thread runs a request.
    `request_id` is the number of the request, the same on all ranks that got it.
    """

    rank: int
    world_size: int
    run_dir: Path
    namespace: dict[str, Any]
    backend: RankBackend = field(default_factory=lambda: make_backend("gloo"))
    device: str = "cpu"
    mode: str = "raw"
    generation: int = 0
    cell: int = 0
    request_id: int = 0
    group_timeout_s: float = 120.0
    error: CodeError | None = None
    main_busy_since_s: float = 0.0
    refusal: str = ""  # safe mode's reason why a wait of this request can't end; until the request is over
    refusal_hint: str = ""
    refused_s: float = 0.0
    told: bool = False  # the driver has given that reason, so an error that a cut connection causes is no news
    wait_cut: bool = False  # for that reason this rank's own connections were cut
    held: HeldSignals = field(default_factory=HeldSignals)
    caught: Caught = field(default_factory=Caught)
    threads: ThreadErrors = field(default_factory=ThreadErrors)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ring: RingWriter = field(init=False)
    store: Any = None
    tap: Any = None
    groups: Any = None
    own: dict[str, Any] = field(default_factory=dict)  # labkit's variables in the namespace: rank, world_size, torch, dist, ...
    made: list[Any] = field(default_factory=list)  # process groups that the learner's code has made in this generation
    unfinished: list[Any] = field(default_factory=list)  # messages that an interrupt left, until new groups are formed
    knows_cell: int = 0  # the variables are as they were after this cell, which may have run in a process before this one
    interruptible: bool = False  # an interrupt is heard: the main thread is in an op, and not in what answers for it

    def __post_init__(self) -> None:
        self.ring = RingWriter(self.run_dir / f"rank-{self.rank}.beacon", self.rank, os.getpid())

    def on_interrupt(self, number: int, frame: Any) -> None:
        """SIGINT's handler while a request is served."""
        if self.interruptible:
            raise KeyboardInterrupt

    def enter(self, cell: int | None) -> None:
        """The main thread starts a request; a cell has a number, another op leaves the last cell's."""
        now = time.monotonic()
        self.main_busy_since_s = now
        self.refuse("")
        if cell is not None:
            self.cell, self.error, self.threads.newest = cell, None, None
        cell = self.cell
        self.ring.state(cell=cell, activity="cell", now_s=now, started_s=now, generation=self.generation)

    def refuse(self, reason: str, hint: str = "", *, told: bool = False) -> None:
        """Every wait of this request that can't end raises with this reason; "" where nothing is refused."""
        self.refusal_hint, self.refused_s, self.told, self.wait_cut = hint, time.monotonic(), told, False
        self.refusal = reason  # last: a thread that waits looks at it

    def at_cell(self, cell: int) -> None:
        """What is done now belongs to the world's newest cell, also on a rank that was not sent it."""
        self.cell, self.error = cell, None
        now, since = time.monotonic(), self.main_busy_since_s
        self.ring.state(cell=cell, activity="cell", now_s=now, started_s=since, generation=self.generation)

    def leave(self) -> None:
        """The main thread is free again."""
        now = time.monotonic()
        started, self.main_busy_since_s = self.main_busy_since_s, 0.0
        self.ring.state(cell=self.cell, activity="idle", now_s=now, started_s=started, generation=self.generation)

    def missing_names(self) -> list[str]:
        """Labkit's own variables that the learner's code has deleted or given another value; a device of theirs is theirs."""
        found, names = self.namespace, list(self.own)
        return [name for name in names if name not in found or (name != "device" and not _equal(found[name], self.own[name]))]

    def restore_names(self) -> None:
        """Put labkit's own variables back."""
        self.namespace.update({name: self.own[name] for name in self.missing_names()})

    def user_names(self) -> list[str]:
        """The learner's variables, in order of their making."""
        found: list[Any] = list(self.namespace)
        names = [name for name in found if isinstance(name, str) and not name.startswith("_")]  # `globals()[5] = 1` is allowed
        return [name for name in names if name not in self.own and name not in _IPYTHON_NAMES]


def _equal(value: Any, own: Any) -> bool:
    return value is own or (type(value) is int and value == own)


_IPYTHON_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
