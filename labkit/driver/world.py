"""The world: the set of ranks that a notebook holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any

from ..diagnosis import whereabouts
from ..diagnosis.matched import matched_with_others
from ..faults import FAULTS
from ..notes import gather
from ..places import cell_label, next_cell
from ..registry import unknown
from ..wire import CellResult, Diagnosis, Injection, OpResult, RecoveryReport, WorldStatus
from . import cells
from .checks import check_code
from .core import INSTRUMENTS, Listener, find_instrument
from .injection import ActiveInjection
from .interrupts import defer_sigint
from .ranks import Ranks
from .refusal import Refusal
from .transport import OnOutput, Pending

if TYPE_CHECKING:
    from .cluster import Cluster

DEADLINE_S = 10.0


class World:
    """Live ranks, one ipyparallel engine each: run, inject, diagnose, recover, stop.

    Every instrument (`tensors`, `pull`, `run_schedule`, `sweep`, ...) is a method as well; `dir(world)` lists them.

    >>> world = labkit.start(ranks=4)                                    # doctest: +SKIP
    >>> world.run_cell("x = torch.ones(4); dist.all_reduce(x); x")       # doctest: +SKIP
    """

    def __init__(
        self, cluster: Cluster, *, mode: str, deadline_s: float, started_in_s: float = 0.0, listeners: Sequence[Listener] = ()
    ) -> None:
        self.core = Ranks(cluster, mode=mode, deadline_s=deadline_s, started_in_s=started_in_s, listeners=listeners)
        self.prompt: Callable[[], int] = lambda: 0  # the number that a notebook shows in the brackets of the running cell
        self._owner = os.getpid()

    def __getattr__(self, name: str) -> Any:
        """An instrument, as a method of this world."""
        return MethodType(find_instrument(name), self.core)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *INSTRUMENTS})

    # ---- what it is
    @property
    def world_size(self) -> int:
        return self.core.world_size

    @property
    def backend(self) -> str:
        return self.core.backend

    @property
    def mode(self) -> str:
        return self.core.mode

    @property
    def deadline_s(self) -> float:
        """Seconds a cell may take unless it says otherwise."""
        return self.core.deadline_s

    @deadline_s.setter
    def deadline_s(self, seconds: float) -> None:
        self.core.deadline_s = seconds

    @property
    def generation(self) -> int:
        return self.core.generation

    @property
    def hosts(self) -> tuple[int, ...]:
        """The host that each rank is on; empty where all are on this machine as it is."""
        return self.core.hosts

    @property
    def cell(self) -> int:
        """The number of the newest rank cell."""
        return self.core.cell

    @property
    def last(self) -> CellResult | None:
        """The result of the newest rank cell."""
        return self.core.last

    @property
    def broken(self) -> str:
        """Since when the process groups no longer work ("since cell 3"); "" while they do."""
        return self.core.broken

    @property
    def stopped(self) -> bool:
        return self.core.stopped

    @property
    def started_in_s(self) -> float:
        return self.core.started_in_s

    @property
    def injections(self) -> list[Injection]:
        """The faults that are armed or have fired, oldest first."""
        return self.core.injections

    def __repr__(self) -> str:
        state = "stopped" if self.stopped else f"generation {self.generation}, {self.mode} mode"
        return f"World({self.world_size} ranks, {self.backend}, {state})"

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- running a cell or an op
    def run_cell(
        self,
        code: str,
        ranks: Sequence[int] | int | None = None,
        *,
        deadline_s: float | None = None,
        on_output: OnOutput | None = None,
        on_notice: Callable[[Diagnosis], None] | None = None,
        cell: int = 0,
    ) -> CellResult:
        """Run `code` on ranks, all of them unless `ranks` says which.

        The cell ends when every rank has answered, at `deadline_s`, or as soon as it is certain that it
        can't end; then the result carries a diagnosis, and the ranks stay as they are until `recover`.
        `on_notice` hears of a wait that may still end (a rank that is slow, stopped, or computing). `cell` is the
        number from `next_cell`.
        Raises RankBusy or RankDead if a rank can't take a cell.
        """
        check_code(code)
        core = self.core
        targets, limit = core.ready(ranks), core.limit(deadline_s)
        started = time.monotonic()
        core.cell = cell or self.next_cell()
        core.targets, core.sources[cell_label(core.cell)] = targets, code
        core.busy_at.clear()
        feed = core.cluster.feed
        before = feed.num_calls()
        pendings: list[Pending] = []
        watch = cells.Watch(
            feed.beats, core.diagnose, limit, notice=on_notice, glance=core.glance if self.mode == "raw" else None,
            reachable=core.cluster.check_reachable, waited=core.remember_busy,
        )  # fmt: skip
        recovery = None
        try:
            core.send(pendings, "cell", {rank: {"code": code, "cell": core.cell} for rank in targets}, on_output=on_output)
            diagnosis = cells.run(pendings, watch)
            status = "late" if watch.expired else "stuck"
            if diagnosis is not None and self.mode == "safe":
                refusal = Refusal(core, pendings, limit, expired=watch.expired)
                diagnosis = refusal.perform(diagnosis)
                status = "stuck" if refusal.stuck else "late"  # whoever has not answered is still at work
        except KeyboardInterrupt:
            with defer_sigint():  # a second interrupt is raised when the ranks are free
                cells.close(pendings)
                diagnosis, recovery, status = core.diagnose(), self.interrupt(), "interrupted"
        if diagnosis is None and feed.num_calls() != before:
            diagnosis = self._after(pendings)
        cells.await_ended(pendings, diagnosis)
        outcomes = cells.outcomes(pendings, status)
        late = [outcome.rank for outcome in outcomes if outcome.status == "late"]
        fine = diagnosis is None or diagnosis.healthy
        found = {pending.rank: pending.future.result().findings for pending in pendings if pending.done}
        if fine and diagnosis is not None and not late:
            for rank, finding in matched_with_others(diagnosis.evidence).items():
                found[rank] = (*found.get(rank, ()), finding)
        result = CellResult(
            core.cell, outcomes, None if fine else diagnosis, recovery, time.monotonic() - started, self.world_size,
            whereabouts(diagnosis.evidence, late) if fine and diagnosis is not None else "",
            gather(found, range(self.world_size)),
        )  # fmt: skip
        core.note(result, diagnosis.evidence if diagnosis is not None else None)
        return result

    def _after(self, pendings: Sequence[Pending]) -> Diagnosis:
        """A cell that ended by itself: were its calls as they should be? No rank is asked, so it is quick."""
        evidence = self.core.look(ask=False)
        told = {pending.rank: pending.future.result().outcome for pending in pendings}
        views = tuple(
            replace(view, error=told[view.rank].error, caught=told[view.rank].caught) if view.rank in told else view
            for view in evidence.ranks
        )
        return self.core.judge(replace(evidence, ranks=views))

    def next_cell(self) -> int:
        """The number of the next cell; in a notebook it has the name that the prompt shows."""
        return next_cell(self.cell, self.prompt())

    def run(
        self, op: str, ranks: Sequence[int] | int | None = None, *, deadline_s: float | None = None, **payload: Any
    ) -> OpResult:
        """Run a rank op by name ("ping", "all_reduce", ...); its plain values, by rank.

        Raises RankRaised with the rank's own message if the op fails there.
        """
        replies = self.core.request(op, payload, ranks, deadline_s=deadline_s)
        return OpResult(op, replies.outcomes, replies.seconds, self.world_size)

    # ---- seeing
    def status(self) -> WorldStatus:
        """Every rank's card: what it is at, right now."""
        return self.core.status()

    def diagnose(self) -> Diagnosis:
        """Who did what, where, and how to mend it; healthy if nothing is wrong."""
        return self.core.diagnose()

    # ---- faults
    def inject(self, fault: str, rank: int, **params: Any) -> ActiveInjection:
        """Arm a fault on a rank: it fires in the next cell. As a context manager it is taken out at the end."""
        spec, core = FAULTS[fault], self.core
        checked = spec.check(params)
        (target,) = core.ready(rank)
        core.request("arm", {"fault": fault, "params": checked}, target)
        active = ActiveInjection(spec, target, checked, self.mode, fired=core.fired, disarm=core.disarm)
        core.active.append(active)
        return active

    def try_fault(self, fault: str, rank: int | None = None, *, deadline_s: float | None = None, **params: Any) -> CellResult:
        """Arm a fault (on the last rank unless `rank` says which) and run its own demonstration cell."""
        target = self.world_size - 1 if rank is None else rank
        with self.inject(fault, target, **params):
            return self.run_cell(FAULTS[fault].demo, deadline_s=deadline_s)

    # ---- mending
    def recover(self, *, force: bool = False) -> RecoveryReport:
        """Bring every rank back: softly if possible, else by replacing those that can't be freed.

        Raises RecoveryError if even a new cluster does not work.
        """
        return self.core.recover(force=force)

    def interrupt(self) -> RecoveryReport:
        """What the square button does: free the ranks, not only the cell."""
        return self.recover(force=True)

    def set_mode(self, mode: str) -> None:
        """ "safe": a collective that does not match becomes an error on every rank; "raw": the real ending comes."""
        if mode not in ("safe", "raw"):
            raise unknown("mode", mode, ("raw", "safe"))
        self.core.request("mode", {"mode": mode})
        self.core.mode = mode

    def stop(self) -> None:
        """End every rank, the controller and the store; a second call does nothing."""
        if not self.stopped and os.getpid() == self._owner:  # a fork of the kernel must not end its parent's ranks
            self.core.tell()
            self.core.stopped = True
            self.core.cluster.stop()
