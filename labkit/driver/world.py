"""The world: the set of ranks that a notebook holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..diagnosis import judge
from ..diagnosis.whereabouts import whereabouts
from ..errors import DeadlineExceeded, UsageError, join_ranks
from ..faults import FAULTS
from ..registry import unknown
from ..timeline import Timeline, make_timeline
from ..wire import (
    CellResult,
    Diagnosis,
    Evidence,
    Injection,
    OpResult,
    RecoveryReport,
    TensorTable,
    WorldStatus,
)
from . import cells, labnote
from .cards import make_card
from .checks import check_deadline, raise_first, ready_ranks
from .injection import ActiveInjection
from .interrupts import held_back
from .ladder import climb, whole
from .live import Live
from .scheduling import RunsSchedules
from .transport import OnOutput, Pending
from .variables import pack, unpack

if TYPE_CHECKING:
    from .cluster import Cluster

DEADLINE_S = 10.0
_BROKEN_WORDS = (
    "Connection closed", "Connection reset", "caused pair closure", "Timed out waiting", "Broken pipe",
    "NCCL", "Connection refused", "Read error", "Write error",
)  # fmt: skip


class World(RunsSchedules):
    """Live ranks, one ipyparallel engine each: run, inject, diagnose, recover, stop.

    >>> world = labkit.start(ranks=4)                                    # doctest: +SKIP
    >>> world.run_cell("x = torch.ones(4); dist.all_reduce(x); x")       # doctest: +SKIP
    """

    def __init__(self, cluster: Cluster, *, mode: str, deadline_s: float, started_in_s: float = 0.0) -> None:
        self._cluster = cluster
        self.mode, self.deadline_s, self.started_in_s = mode, deadline_s, started_in_s
        self.broken = ""
        self.apart = False  # not the world that a lab is about
        self.cell = 0
        self.last: CellResult | None = None
        self._turn = 0
        self._targets: tuple[int, ...] = ()
        self._sources: dict[int, str] = {}
        self._pending: dict[int, Pending] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._injections: list[ActiveInjection] = []
        self.stopped = False
        self._owner = os.getpid()

    # ---- what it is
    @property
    def world_size(self) -> int:
        return self._cluster.world_size

    @property
    def backend(self) -> str:
        return self._cluster.backend

    @property
    def generation(self) -> int:
        return self._cluster.generation

    @property
    def injections(self) -> list[Injection]:
        """The faults that are armed or have fired, oldest first."""
        return [active.record for active in self._injections]

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
        `on_notice` hears of a wait that may still end (a rank that is slow, stopped, or computing).
        Raises RankBusy or RankDead if a rank can't take a cell.
        """
        targets = self._ready(ranks)
        limit = check_deadline(self.deadline_s if deadline_s is None else deadline_s)
        started = time.monotonic()
        self.cell = max(self.cell + 1, cell)
        self._targets, self._sources[self.cell] = targets, code
        counts = self._cluster.feed.beats()
        self._turn += 1
        pendings: list[Pending] = []
        watch = cells.Watch(self._cluster.feed.beats, self.diagnose, limit, notice=on_notice)
        recovery = None
        try:
            self._send_all(pendings, "cell", {rank: {"code": code, "cell": self.cell} for rank in targets}, on_output=on_output)
            diagnosis = cells.run(pendings, watch)
            if diagnosis is not None and self.mode == "safe":
                diagnosis = self._refuse(pendings, diagnosis)
            status = "late" if watch.expired else "stuck"
        except KeyboardInterrupt:
            cells.close(pendings)
            diagnosis, recovery, status = self.diagnose(), self.interrupt(), "interrupted"
        if diagnosis is None and self._cluster.feed.beats() != counts:
            diagnosis = self._after(pendings)
        outcomes = cells.outcomes(pendings, status)
        late = [outcome.rank for outcome in outcomes if outcome.status == "late"]
        fine = diagnosis is None or diagnosis.healthy
        result = CellResult(
            self.cell, outcomes, None if fine else diagnosis, recovery, time.monotonic() - started, self.world_size,
            whereabouts(diagnosis.evidence, late) if fine and diagnosis is not None else "",
        )  # fmt: skip
        self._note(result, diagnosis)
        return result

    def _send_all(
        self, pendings: list[Pending], op: str, payloads: Mapping[int, dict[str, Any]], *, buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> None:  # fmt: skip
        """Send a request to several ranks, to all of them even if an interrupt comes meanwhile; fills `pendings`."""
        request = partial(self._cluster.transport.request, turn=self._turn, buffers=buffers, on_output=on_output)
        with held_back():
            for rank, payload in payloads.items():
                self._pending[rank] = request(rank, op, payload)
                pendings.append(self._pending[rank])

    def _after(self, pendings: Sequence[Pending]) -> Diagnosis | None:
        """A cell that ended by itself: were its calls as they should be? No rank is asked, so it is quick."""
        evidence = self._cluster.feed.look(self._evidence(), ask=False, sources=self._source)
        errors = {pending.rank: pending.future.result().outcome.error for pending in pendings}
        views = tuple(replace(view, error=errors.get(view.rank)) for view in evidence.ranks)
        return self._judge(replace(evidence, ranks=views))

    def _refuse(self, pendings: Sequence[Pending], diagnosis: Diagnosis) -> Diagnosis:
        """Safe mode: whoever waits for a rank that will not come is told so and raises; nothing stays stuck."""
        verdict = diagnosis.verdict
        if verdict is None:
            return diagnosis
        waiting = {view.rank for view in diagnosis.evidence.ranks if view.waiting_in is not None and view.process == "running"}
        told = [pending for pending in pendings if not pending.done and pending.rank in waiting]
        for pending in told:
            self._cluster.transport.control(pending.rank, "refuse", {"reason": verdict.sentence.rstrip("."), "turn": self._turn})
        wait([pending.future for pending in told], timeout=1.0)
        after = self.diagnose()  # the same finding, and by now it is known that nothing was issued
        return after if after.verdict is not None and after.verdict.code == verdict.code else diagnosis

    def _note(self, result: CellResult, seen: Diagnosis | None = None) -> None:
        """Remember what later calls need: the result, the ranks' variables, whether the groups still work."""
        self.last = result
        for rank, pending in self._pending.items():
            if pending.done and pending.future.result().names:
                self._names[rank] = pending.future.result().names
        seen = seen or result.diagnosis
        in_a_call = seen is None or any(view.waiting_in is not None for view in seen.evidence.ranks)
        for outcome in result.outcomes:
            text = str(outcome.error or "")
            cut = outcome.status in ("late", "stuck") and in_a_call
            if cut or outcome.status == "dead" or any(word in text for word in _BROKEN_WORDS):
                self.broken = self.broken or f"since cell {result.cell}"
        for active in self._injections:
            active.observe(result)
        labnote.saw(self, result)

    def run(
        self, op: str, ranks: Sequence[int] | int | None = None, *, deadline_s: float | None = None, **payload: Any
    ) -> OpResult:
        """Run a rank op by name ("ping", "all_reduce", ...); its plain values, by rank.

        Raises RankRaised with the rank's own message if the op fails there.
        """
        return self._run(op, payload, ranks, deadline_s)[0]

    def _run(
        self,
        op: str,
        payload: dict[str, Any],
        ranks: Sequence[int] | int | None = None,
        deadline_s: float | None = None,
        buffers: Sequence[bytes] = (),
    ) -> tuple[OpResult, list[list[bytes]]]:
        targets = self._ready(ranks)
        limit = check_deadline(self.deadline_s if deadline_s is None else deadline_s)
        started = time.monotonic()
        self._turn += 1
        pendings: list[Pending] = []
        try:
            self._send_all(pendings, op, dict.fromkeys(targets, payload), buffers=buffers)
            wait([pending.future for pending in pendings], timeout=max(0.0, limit - (time.monotonic() - started)))
        except KeyboardInterrupt:
            if wait([pending.future for pending in pendings], timeout=1.0).not_done:
                self.interrupt()
            raise
        late = [pending.rank for pending in pendings if not pending.done]
        if late:
            self.broken = self.broken or f"since {op}"
            raise DeadlineExceeded(
                f"{join_ranks(late)} did not finish {op} in {limit:g} s",
                hint="world.diagnose() says why; world.recover() brings the ranks back",
                ranks=late,
            )
        outcomes = tuple(pending.future.result().outcome for pending in pendings)
        raise_first(op, outcomes)
        return OpResult(op, outcomes, time.monotonic() - started, self.world_size), [p.future.result().buffers for p in pendings]

    # ---- variables
    def tensors(self, name: str, limit: int = 64) -> TensorTable:
        """A variable of all ranks as rank x element, before and after the last collective it entered."""
        result, _ = self._run("sample", {"name": name, "limit": limit}, deadline_s=max(self.deadline_s, 60.0))
        samples, missing, known = [], [], set()
        for outcome in result.outcomes:
            if isinstance(outcome.value, dict):
                missing.append(outcome.rank)
                known |= set(outcome.value["missing"])
            else:
                samples.append(outcome.value)
        if not samples:
            raise unknown("variable", name, known)
        return TensorTable(name, tuple(samples), tuple(missing))

    def pull(self, name: str, ranks: Sequence[int] | int | None = None, limit_bytes: int = 256 * 2**20) -> dict[int, Any]:
        """A variable's value by rank: numbers as numpy arrays, plain values as they are, others as text."""
        limit = max(self.deadline_s, 60.0)
        result, parts = self._run("pull", {"name": name, "limit_bytes": limit_bytes}, ranks, deadline_s=limit)
        pairs = zip(result.outcomes, parts, strict=True)
        return {outcome.rank: unpack(outcome.value, buffers) for outcome, buffers in pairs}

    def push(self, ranks: Sequence[int] | int | None = None, **values: Any) -> None:
        """Set variables on ranks: numbers become tensors on the rank's device, plain values stay as they are."""
        plain, arrays, buffers = pack(values)
        limit = max(self.deadline_s, 60.0)
        self._run("push", {"values": plain, "arrays": arrays}, ranks, deadline_s=limit, buffers=buffers)

    # ---- seeing
    def status(self) -> WorldStatus:
        """Every rank's card: what it is at, right now."""
        self._alive()
        evidence = self._cluster.feed.look(self._evidence())
        seats = self._cluster.seats
        cards = tuple(make_card(view, seats[view.rank], self.backend) for view in evidence.ranks)
        busy = [rank for rank, pending in self._pending.items() if not pending.done]
        if self._cluster.lost:
            note = "the controller is gone; world.recover() starts all anew"
        elif self.broken:
            note = f"the groups are broken {self.broken}; world.recover() forms new ones"
        else:
            note = f"{join_ranks(busy)} still at cell {self.cell}; world.recover() frees them" if busy else ""
        return WorldStatus(
            self.world_size, self.backend, self.mode, self.generation, self._cluster.launcher.name, cards, self.started_in_s, note
        )

    def diagnose(self) -> Diagnosis:
        """Who did what, where, and how to mend it; healthy if nothing is wrong."""
        self._alive()
        started = time.monotonic()
        evidence = self._cluster.feed.look(self._evidence(), sources=self._source)
        diagnosis = self._judge(evidence, started)
        if diagnosis.healthy and self.last is not None and self.last.diagnosis is not None and self.broken:
            return self.last.diagnosis  # what was seen when it broke; the ranks have moved on since
        return diagnosis

    def _judge(self, evidence: Evidence, started_s: float | None = None) -> Diagnosis:
        started = time.monotonic() if started_s is None else started_s
        return Diagnosis(judge(evidence), evidence, time.monotonic() - started)

    def _evidence(self) -> Evidence:
        return Evidence(
            self.world_size, self.backend, self.mode, self.generation, self.cell, self._targets or tuple(range(self.world_size))
        )

    def _source(self, cell: int) -> str:
        return self._sources.get(cell, "")

    def watch(self) -> Live:
        """The rank cards, moving while cells run; where nobody watches, as they are now."""
        self._alive()
        return Live(self)

    def timeline(self, cells: int = 1) -> Timeline:
        """Who was in which call, when: the last cell, or the last `cells`."""
        self._alive()
        return make_timeline(self._cluster.feed.look(self._evidence(), ask=False), cells)

    # ---- faults
    def inject(self, fault: str, rank: int, **params: Any) -> ActiveInjection:
        """Arm a fault on a rank: it fires in the next cell. As a context manager it is taken out at the end."""
        spec = FAULTS[fault]
        checked = spec.check(params)
        (target,) = self._ready(rank)
        self._run("arm", {"fault": fault, "params": checked}, target)
        active = ActiveInjection(self, spec, target, checked, self._fired(target))
        self._injections.append(active)
        return active

    def try_fault(self, fault: str, rank: int | None = None, *, deadline_s: float | None = None, **params: Any) -> CellResult:
        """Arm a fault (on the last rank unless `rank` says which) and run its own demonstration cell."""
        target = self.world_size - 1 if rank is None else rank
        with self.inject(fault, target, **params):
            return self.run_cell(FAULTS[fault].demo, deadline_s=deadline_s)

    def _fired(self, rank: int) -> int:
        return self._cluster.fired(rank)

    def _disarm(self, rank: int) -> None:
        """Take faults out of a rank that can take a request; one that can't is disarmed by recovery."""
        pending = self._pending.get(rank)
        if self._cluster.seats[rank].exit_code is None and (pending is None or pending.done):
            self._run("disarm", {}, rank)

    # ---- mending
    def recover(self, *, force: bool = False) -> RecoveryReport:
        """Bring every rank back: softly if possible, else by replacing those that can't be freed.

        Raises RecoveryError if even a new cluster does not work.
        """
        self._alive()
        labnote.saw(self)
        settled = not force and self.last is not None and self.last.diagnosis is not None
        climbing = partial(climb, self._cluster, self._pending, self._names, mode=self.mode, broken=bool(self.broken))
        report, interrupted = whole(lambda: climbing(force=force, settled=settled))
        self.broken = ""
        self._pending.clear()
        for rank in report.replaced:
            self._names.pop(rank, None)
        if report.rung != "none":
            self._injections.clear()
        labnote.recovered(self, report)
        if interrupted:
            raise KeyboardInterrupt
        return report

    def interrupt(self) -> RecoveryReport:
        """What the square button does: free the ranks, not only the cell."""
        return self.recover(force=True)

    def set_mode(self, mode: str) -> None:
        """ "safe": a collective that does not match becomes an error on every rank; "raw": the real ending comes."""
        if mode not in ("safe", "raw"):
            raise unknown("mode", mode, ("raw", "safe"))
        self._run("mode", {"mode": mode})
        self.mode = mode

    def stop(self) -> None:
        """End every rank, the controller and the store; a second call does nothing."""
        if not self.stopped and os.getpid() == self._owner:  # a fork of the kernel must not end its parent's ranks
            labnote.saw(self)
            self.stopped = True
            self._cluster.stop()
            from .current import HOLDER

            if HOLDER.world is self:
                HOLDER.world = None

    # ---- checks before a request
    def _alive(self) -> None:
        if self.stopped:
            raise UsageError("this world is stopped", hint="start a new one with labkit.start()")

    def _ready(self, ranks: Sequence[int] | int | None) -> tuple[int, ...]:
        """The ranks a request may go to; an error for those that are not there, dead, or busy."""
        self._alive()
        return ready_ranks(ranks, self._cluster, self._pending)
