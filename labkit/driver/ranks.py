"""The ranks of one world: requests go out, answers are awaited, a look is judged once, and recovery frees whoever is stuck."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..diagnosis import groups_ended, judge
from ..diagnosis.standing import is_echo
from ..endings import groups_broken, guilty_error
from ..errors import DeadlineExceeded, RankDead, RankError, RankStuck, UsageError, join_ranks
from ..places import cell_label, cell_name
from ..timings import REACH_EVERY_S
from ..vocabulary import Activity
from ..wire import CellResult, CodeError, Diagnosis, Evidence, Frame, Injection, Outcome, RankView, RecoveryReport, WorldStatus
from . import cells
from .cards import make_card
from .checks import check_deadline, raise_first, ready_ranks
from .core import Listener, Replies
from .injection import ActiveInjection
from .interrupts import defer_sigint
from .ladder import climb, run_uninterrupted
from .restoring import History
from .transport import OnOutput, Pending

if TYPE_CHECKING:
    from .cluster import Cluster
    from .feed import Seat

RUN_S = 60.0  # patience with a watched request, unless the caller says otherwise
_CALLERS = ("UsageError", "UnknownName")


class Ranks:
    """The request core of a world: what `WorldCore` declares, over a cluster."""

    def __init__(
        self, cluster: Cluster, *, mode: str, deadline_s: float, started_in_s: float = 0.0, listeners: Sequence[Listener] = ()
    ) -> None:
        self.cluster, self.mode, self.deadline_s, self.started_in_s = cluster, mode, deadline_s, started_in_s
        self.listeners = tuple(listeners)
        self.broken, self.cell, self.request_id = "", 0, 0
        self.last: CellResult | None = None
        self.mended = self.stopped = False  # mended: the ranks were recovered since
        self.active, self.targets = list[ActiveInjection](), tuple[int, ...]()
        self.sources: dict[str, str] = {}  # by the number that people see
        self.pending: dict[int, Pending] = {}
        self.names: dict[int, tuple[str, ...]] = {}
        self.busy_at: dict[int, tuple[Frame, ...]] = {}
        self.history = History()

    # ---- what it is
    @property
    def world_size(self) -> int:
        return self.cluster.world_size

    @property
    def backend(self) -> str:
        return self.cluster.backend

    @property
    def launcher(self) -> str:
        return self.cluster.launcher.name

    @property
    def generation(self) -> int:
        return self.cluster.generation

    @property
    def hosts(self) -> tuple[int, ...]:
        return tuple(self.cluster.hosts)

    @property
    def links(self) -> tuple[str, str]:
        layout = self.cluster.layout if self.hosts else None
        return (layout.shape.rate, layout.shape.delay) if layout is not None else ("", "")

    @property
    def folder(self) -> Path:
        return self.cluster.folder.path

    @property
    def seats(self) -> Sequence[Seat]:
        return self.cluster.seats

    @property
    def injections(self) -> list[Injection]:
        return [active.record for active in self.active]

    def unfired(self) -> list[ActiveInjection]:
        """The faults that are armed and have not fired."""
        return [active for active in self.active if active.active and not active.record.fired]

    def source(self, cell: int) -> str:
        """The code of a rank cell; "" if there is none of this number."""
        return self.sources.get(cell_label(cell), "")

    # ---- requests
    def alive(self) -> None:
        """UsageError once the world is stopped."""
        if self.stopped:
            raise UsageError("this world is stopped", hint="start a new one with labkit.start()")

    def ready(self, ranks: Sequence[int] | int | None) -> tuple[int, ...]:
        """The ranks a request may go to; an error for those that are not there, dead, or busy."""
        self.alive()
        return ready_ranks(ranks, self.cluster, self.pending)

    def limit(self, deadline_s: float | None, least_s: float = 0.0) -> float:
        """The deadline of a request in seconds: the given one, else the world's, at least `least_s`."""
        return check_deadline(max(self.deadline_s, least_s) if deadline_s is None else deadline_s)

    def send(
        self, pendings: list[Pending], op: str, payloads: Mapping[int, Mapping[str, Any]], *, buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> None:  # fmt: skip
        """Send a request to several ranks, to all of them even if an interrupt comes meanwhile; fills `pendings`."""
        self.request_id += 1
        request = partial(self.cluster.transport.request, request_id=self.request_id, buffers=buffers, on_output=on_output)
        with defer_sigint():
            for rank, payload in payloads.items():
                self.pending[rank] = request(rank, op, dict(payload))
                pendings.append(self.pending[rank])

    def request(
        self, op: str, payload: Mapping[str, Any], ranks: Sequence[int] | int | None = None, *, deadline_s: float | None = None,
        buffers: Sequence[bytes] = (), may_fail: bool = False,
    ) -> Replies:  # fmt: skip
        """Run a rank op with one payload and wait for the answers; see `WorldCore.request`."""
        targets, limit = self.ready(ranks), self.limit(deadline_s)
        started = time.monotonic()
        pendings: list[Pending] = []
        try:
            self.send(pendings, op, dict.fromkeys(targets, payload), buffers=buffers)
            self._await(pendings, started + limit)
        except KeyboardInterrupt:
            with defer_sigint():  # a second interrupt is raised when the ranks are free
                if wait([pending.future for pending in pendings], timeout=1.0).not_done:
                    self.recover(force=True)
            raise
        late = [pending.rank for pending in pendings if not pending.done]
        if late:
            self.broken = self.broken or f"since {op}"
            raise DeadlineExceeded(
                f"{join_ranks(late)} did not finish {op} in {limit:g} s",
                hint="world.diagnose() says why; world.recover() brings the ranks back",
                ranks=late,
            )
        replies = [pending.future.result() for pending in pendings]
        outcomes = tuple(reply.outcome for reply in replies)
        if not may_fail:
            raise_first(op, outcomes)
        return Replies(outcomes, tuple(reply.buffers for reply in replies), seconds=time.monotonic() - started)

    def _await(self, pendings: Sequence[Pending], end_s: float) -> None:
        """Wait for every answer until `end_s`; RankError at once if none can come any more."""
        while open_ones := [pending.future for pending in pendings if not pending.done]:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return
            wait(open_ones, timeout=min(left_s, REACH_EVERY_S))
            if time.monotonic() < end_s and not all(pending.done for pending in pendings):
                self.cluster.check_reachable()

    def request_each(
        self, op: str, payloads: Sequence[Mapping[str, Any]], *, deadline_s: float | None = None,
        may_resolve: frozenset[str] | None = None, must_answer: bool = False,
    ) -> Replies:  # fmt: skip
        """Run a rank op on all ranks, each with its own payload, watched like a cell; see `WorldCore.request_each`."""
        self.targets, limit = self.ready(None), self.limit(deadline_s, RUN_S)
        started, look = time.monotonic(), self._news()
        pendings: list[Pending] = []
        resolve = cells.MAY_RESOLVE if may_resolve is None else may_resolve
        watch = cells.Watch(self.cluster.feed.beats, look, limit, may_resolve=resolve, reachable=self.cluster.check_reachable)
        try:
            self.send(pendings, op, {rank: payloads[rank] for rank in self.targets})
            diagnosis = cells.run(pendings, watch)
        except KeyboardInterrupt:
            with defer_sigint():
                cells.close(pendings)
                self.recover(force=True)
            raise
        outcomes = cells.outcomes(pendings, "late" if watch.expired else "stuck")
        failed = [outcome for outcome in outcomes if not outcome.ok]
        if failed:
            if all(outcome.error is not None and outcome.error.type in _CALLERS for outcome in failed):
                raise_first(op, outcomes)
            diagnosis = diagnosis or look()
            found = None if diagnosis.healthy else diagnosis
            self.note(CellResult(self.cell, outcomes, found, None, 0.0, self.world_size), diagnosis.evidence)
        if failed and must_answer:
            self._raise(op, outcomes, diagnosis)
        return Replies(outcomes, diagnosis=diagnosis if failed else None, seconds=time.monotonic() - started)

    def _news(self) -> Callable[[], Diagnosis]:
        """`diagnose`, less what it says already: a cell that ended badly is not this request's fault.

        But a rank that is gone or stopped by now is: it was there when the request was checked.
        """
        known = {verdict.sentence for verdict in self.diagnose().verdicts if verdict.code not in ("LK001", "LK002")}

        def look() -> Diagnosis:
            found = self.diagnose()
            return replace(found, verdicts=tuple(verdict for verdict in found.verdicts if verdict.sentence not in known))

        return look

    @staticmethod
    def _raise(op: str, outcomes: Sequence[Outcome], diagnosis: Diagnosis | None) -> None:
        verdict = diagnosis.verdict if diagnosis is not None else None
        if verdict is not None:
            kind = RankDead if any(outcome.status == "dead" for outcome in outcomes) else RankStuck
            raise kind(verdict.sentence.rstrip("."), hint="world.recover() brings the ranks back", ranks=verdict.culprits)
        raise_first(op, outcomes)

    # ---- seeing
    def look(self, *, ask: bool = True) -> Evidence:
        """What every rank is doing now; without `ask` only from the beacons."""
        self.alive()
        seen: Evidence = self.cluster.feed.look(self._base(), ask=ask, sources=self.sources)
        return replace(seen, ranks=tuple(self._with_busy(view) for view in seen.ranks)) if self.busy_at else seen

    def remember_busy(self, evidence: Evidence) -> None:
        """Where ranks are while others wait for them: when the waits have ended, nobody can see it any more."""
        self.busy_at.update({v.rank: v.stack for v in evidence.ranks if v.activity == Activity.CELL and v.path})

    def _with_busy(self, view: RankView) -> RankView:
        stack = self.busy_at.get(view.rank, ())
        return replace(view, stack=stack) if stack and view.activity == Activity.IDLE and not view.path else view

    def glance(self) -> Evidence:
        """Each rank's newest calls, at next to no cost."""
        seen: Evidence = self.cluster.feed.glance(self._base())
        return seen

    def _base(self) -> Evidence:
        targets = self.targets or tuple(range(self.world_size))
        broken = bool(self.broken)
        return Evidence(self.world_size, self.backend, self.mode, self.generation, self.cell, targets, broken=broken)

    def judge(self, evidence: Evidence, started_s: float | None = None) -> Diagnosis:
        """A look, judged."""
        started = time.monotonic() if started_s is None else started_s
        return Diagnosis(judge(evidence), evidence, time.monotonic() - started)

    def diagnose(self) -> Diagnosis:
        """A look at all ranks, judged; where the groups are broken and nothing more is to be seen, what was found then."""
        self.alive()
        self.cluster.check_reachable()
        started = time.monotonic()
        diagnosis = self.judge(self.look(), started)
        if diagnosis.healthy and self.last is not None and self.last.diagnosis is not None and self.broken:
            return self.last.diagnosis  # what was seen when it broke; the ranks have moved on since
        return replace(diagnosis, notes=self.last.notes) if self.last is not None else diagnosis

    def raised(self, rank: int, seen: CodeError | None = None) -> CodeError | None:
        """What ended the newest cell on this rank by its own fault, until they are recovered; `seen`: it has not answered yet."""
        own = seen if seen is not None and not is_echo(seen) else None
        return None if self.mended else guilty_error(self.last, rank) or own

    def made_now(self, evidence: Evidence) -> bool:
        """Whether any rank has made a call in the newest request."""
        return any(call.request_id == self.request_id for view in evidence.ranks for call in view.calls)

    def status(self) -> WorldStatus:
        """Every rank's card."""
        self.alive()
        note = ""
        try:
            self.cluster.check_reachable()
        except RankError as error:
            note = str(error)
        evidence = self.look(ask=not note)
        known = {"reachable": not note, "mended": self.mended}
        cards = tuple(
            make_card(view, self.seats[view.rank], self.backend, self.raised(view.rank, view.error), **known)
            for view in evidence.ranks
        )
        busy = [rank for rank, pending in self.pending.items() if not pending.done]
        gone = {view.rank: call for view in evidence.ranks if (call := groups_ended(view.calls)) is not None}
        if not note and gone:
            where = " and ".join(sorted({str(call.site) for call in gone.values()}))
            note = f"{join_ranks(tuple(gone))} ended all process groups ({where}); world.recover() forms new ones"
        elif not note and self.broken:
            note = f"the groups are broken {self.broken}; world.recover() forms new ones"
        elif not note and self.cluster.store_lost:
            note = "the store has exited, so no process group can be made; world.recover() starts a new one"
        elif not note and busy:
            note = f"{join_ranks(busy)} still at {cell_name(self.cell)}; world.recover() frees {('it', 'them')[len(busy) > 1]}"
        return self.status_of(cards, note)

    def status_of(self, cards: tuple[Any, ...], note: str) -> WorldStatus:
        """The world's own facts around these cards."""
        return WorldStatus(
            self.world_size, self.backend, self.mode, self.generation, self.launcher, cards, self.started_in_s, note
        )

    # ---- remembering
    def note(self, result: CellResult, evidence: Evidence | None = None) -> None:
        """Take in how a request ended: the ranks' variables, whether the groups still work, what armed faults did."""
        self.last, self.mended = result, False
        for rank, pending in self.pending.items():
            if pending.done and pending.future.result().names:
                self.names[rank] = pending.future.result().names
        self.history.note(result, self.source(result.cell))
        if result.recovery is None and groups_broken(result.outcomes, evidence):
            self.broken = self.broken or f"since {cell_name(result.cell)}"
        for active in self.active:
            active.observe(result)
        self.tell(result, evidence)

    def tell(self, result: CellResult | None = None, evidence: Evidence | None = None) -> None:
        """Let the listeners hear that something has happened."""
        for listener in self.listeners:
            listener.saw(self, result, evidence)

    # ---- faults and mending
    def fired(self, rank: int) -> int:
        """How many faults have fired in this rank's process."""
        return self.cluster.fired(rank)

    def disarm(self, rank: int) -> None:
        """Take faults out of a rank that can take a request; one that can't is disarmed by recovery."""
        pending = self.pending.get(rank)
        if self.seats[rank].exit_code is None and (pending is None or pending.done):
            self.request("disarm", {}, rank)

    def recover(self, *, force: bool = False) -> RecoveryReport:
        """Bring every rank back; see `World.recover`."""
        self.alive()
        self.tell()
        settled = not force and self.last is not None and self.last.diagnosis is not None
        broken, cells = bool(self.broken), self.history.cells
        climbing = partial(climb, self.cluster, self.pending, self.names, mode=self.mode, broken=broken, cells=cells)
        report, interrupted = run_uninterrupted(lambda: climbing(force=force, settled=settled))
        self.broken, self.mended = "", True
        self.pending.clear()
        self.names.update(dict.fromkeys(report.replaced, ()) | {each.rank: each.there for each in report.restored})
        if report.rung != "none":
            self.active.clear()
        for listener in self.listeners:
            listener.recovered(self, report)
        if interrupted:
            raise KeyboardInterrupt
        return report
