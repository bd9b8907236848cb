"""Performs what the recovery state machine says, and reports what was kept and what was lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from ..backends import find
from ..errors import LabkitError, RecoveryError, join_ranks
from ..recovery import (
    Assessed,
    Continue,
    Event,
    Finish,
    Form,
    FormEnded,
    GiveUp,
    Instruction,
    Ladder,
    RankState,
    Release,
    ReleaseEnded,
    Replace,
    ReplaceEnded,
    Restart,
)
from ..wire import RecoveryReport
from . import host
from .transport import Pending

if TYPE_CHECKING:
    from .cluster import Cluster

PROBE_S = 0.15
PROBE_AT_WORK_S = 0.5  # of ranks that may be at work: more of them than cores, and each waits for a core
PROBE_TIMES = 6.0  # a mute rank is one that takes this many times longer than the slowest that answered
PROBE_MOST_S = 1.5
RELEASE_TIMES = 12.0
CUT_S = 0.3
MOVING_S = 0.15  # a rank that has made a call within this time is at work
CALM_LOOKS = 3
SETTLE_MOST_S = 1.0
POLL_S = 0.02


class _Climb:
    """One recovery under way."""

    def __init__(self, cluster: Cluster, pending: dict[int, Pending], mode: str, settled: bool) -> None:
        self.cluster, self.pending, self.mode, self.settled = cluster, pending, mode, settled
        self.steps: list[str] = []
        self.check = ""
        self.pace_s = 0.0  # how long the slowest answer took

    def assess(self, broken: bool, force: bool) -> Assessed:
        """Every rank's process, whether it is busy, and whether its control thread answers."""
        states = [host.process_state(seat.pid) if seat.exit_code is None else "dead" for seat in self.cluster.seats]
        asked = {
            rank: self.cluster.transport.control(rank, "state", {"stack": False})
            for rank, state in enumerate(states)
            if state == "running"
        }
        asked_s = time.monotonic()
        self._probe(list(asked.values()))
        beats = self.cluster.feed.beats()  # a rank that makes calls holds no lock, however late its answer is
        ranks = tuple(
            RankState(rank, state, self._busy(rank), rank not in asked or _answered(asked[rank]) or beats[rank] > asked_s)
            for rank, state in enumerate(states)
        )
        unformed = any(_answered(future) and not future.result().get("formed", True) for future in asked.values())
        return Assessed(ranks, broken or unformed, force, self.cluster.lost)

    def _probe(self, asked: list[Future[Any]]) -> None:
        """Give every rank time to answer: a rank counts as mute only beside others that answered long before.

        On a busy machine all answers are late, and a rank that is merely slow must not lose its variables.
        """
        began = time.monotonic()
        least_s = patience_s = PROBE_S if self.settled else PROBE_AT_WORK_S
        while (left := patience_s - (time.monotonic() - began)) > 0 and asked:
            done, open_ones = wait(asked, timeout=left, return_when=FIRST_COMPLETED)
            if done:
                self.pace_s = time.monotonic() - began
                patience_s = min(PROBE_MOST_S, max(least_s, PROBE_TIMES * self.pace_s))
            asked = list(open_ones)
            if not done and patience_s < PROBE_MOST_S and self.pace_s == 0:
                patience_s, self.pace_s = PROBE_MOST_S, PROBE_S  # nobody has answered: it is the machine

    def _busy(self, rank: int) -> bool:
        return rank in self.pending and not self.pending[rank].done

    def perform(self, instruction: Instruction) -> Event | None:
        """Do one instruction; the event it ends in, if it has one."""
        match instruction:
            case Continue(ranks):
                self._cut_waits(ranks)
                for rank in ranks:
                    host.send(self.cluster.seats[rank].pid, signal.SIGCONT)
                self.steps.append(f"let {join_ranks(ranks)} go on (SIGCONT)")
                return None
            case Release(ranks, wait_s):
                return self._release(ranks, wait_s)
            case Replace(ranks):
                return self._try(lambda: self._replace(ranks), ReplaceEnded)
            case Restart():
                self.steps.append("started controller, store and all ranks anew")
                self.cluster.restart()
                return None
            case Form():
                return self._try(self._form, FormEnded)
            case GiveUp(reason):
                raise RecoveryError(f"the world could not be brought back: {reason}", hint="world.stop(), then `labkit doctor`")
        raise AssertionError(instruction)

    def _cut_waits(self, stopped: tuple[int, ...]) -> None:
        """Free those who wait for a stopped rank before it goes on.

        Messages flow again as soon as it does, and gloo can lose a wait whose connection is cut at that very moment: on
        a busy machine every tenth such recovery had to replace a rank.
        """
        waiting = [rank for rank in range(self.cluster.world_size) if rank not in stopped and self._busy(rank)]
        for rank in waiting:
            self.cluster.transport.control(rank, "release", {})
        wait([self.pending[rank].future for rank in waiting], timeout=max(CUT_S, RELEASE_TIMES * self.pace_s))

    def _settle(self, ranks: tuple[int, ...]) -> None:
        """Let ranks that are at work come to rest before anything is cut.

        A wait whose connection is cut while its messages flow can be lost, and its rank with it: of recoveries from a
        loop of collectives every tenth to fourth had to replace a rank.
        """
        halted: set[int] = set()
        calm = 0  # on a busy machine a rank at work may be without a core for as long as one look takes
        end_s = time.monotonic() + max(SETTLE_MOST_S, RELEASE_TIMES * self.pace_s)
        while calm < CALM_LOOKS and any(map(self._busy, ranks)) and time.monotonic() < end_s:
            working = self._at_work(ranks)
            calm = 0 if working else calm + 1
            asked = {rank: self.cluster.transport.control(rank, "interrupt_main", {}) for rank in working - halted}
            wait(asked.values(), timeout=PROBE_S)
            halted |= {rank for rank, future in asked.items() if _answered(future) and future.result()}
            wait([self.pending[rank].future for rank in working], timeout=POLL_S)

    def _at_work(self, ranks: tuple[int, ...]) -> set[int]:
        """Busy ranks that have made a call just now, were asked just now, or use a processor."""
        busy = [rank for rank in ranks if self._busy(rank)]
        asked = {rank: self.cluster.transport.control(rank, "process_idle", {}) for rank in busy}
        wait(asked.values(), timeout=PROBE_S)
        newest, beats = time.monotonic() - MOVING_S, self.cluster.feed.beats()
        moving = {rank for rank in busy if max(beats[rank], self.pending[rank].asked_s) > newest}
        return moving | {rank for rank, future in asked.items() if _answered(future) and future.result() is False}

    def _release(self, ranks: tuple[int, ...], wait_s: float) -> ReleaseEnded:
        if find(self.cluster.backend).rest_before_release and not self.settled:
            self._settle(ranks)
        for rank in ranks:
            self.cluster.transport.control(rank, "release", {})
        wait(
            [self.pending[rank].future for rank in ranks if rank in self.pending],
            timeout=max(wait_s, RELEASE_TIMES * self.pace_s),
        )
        stuck = tuple(rank for rank in ranks if self._busy(rank))
        free = tuple(rank for rank in ranks if rank not in stuck)
        if free:
            kept = "variables kept (a tensor inside a collective may be half reduced)"
            self.steps.append(f"freed {join_ranks(free)}: waits cut, code interrupted, {kept}")
        return ReleaseEnded(free, stuck)

    def _replace(self, ranks: tuple[int, ...]) -> None:
        self.cluster.end_ranks(ranks)
        self.cluster.start_ranks(ranks)
        self.steps.append(f"replaced {join_ranks(ranks)} by a new process{'' if len(ranks) == 1 else ' each'}")

    def _form(self) -> None:
        value = self.cluster.form(self.mode)
        self.check = f"all-reduce of rank + 1 gives {value:g} on all {self.cluster.world_size} ranks"
        self.steps.append(f"formed generation {self.cluster.generation}")

    def _try(self, work: Any, ended: Any) -> Event:
        try:
            work()
        except LabkitError as error:
            self.steps.append(f"that failed: {error.what}")
            event: Event = ended(ok=False, reason=error.what)
            return event
        success: Event = ended(ok=True)
        return success


def climb(
    cluster: Cluster, pending: dict[int, Pending], names: dict[int, tuple[str, ...]], *, mode: str, broken: bool, force: bool,
    settled: bool = False,
) -> RecoveryReport:  # fmt: skip
    """Recover the world; RecoveryError if nothing helps. `settled`: it is known that no messages flow any more."""
    started = time.monotonic()
    climbing = _Climb(cluster, pending, mode, settled)
    ladder = Ladder(cluster.world_size)
    ladder.release_wait_s = find(cluster.backend).release_wait_s or ladder.release_wait_s
    todo = list(ladder.handle(climbing.assess(broken, force)))
    while todo:
        instruction = todo.pop(0)
        if isinstance(instruction, Finish):
            break
        event = climbing.perform(instruction)
        if event is not None:
            todo = list(ladder.handle(event))
    replaced = tuple(sorted(ladder.replaced))
    for rank, answered in pending.items():  # a freed rank has told what its cell had made by then
        if answered.done and rank not in replaced and answered.future.result().names:
            names[rank] = answered.future.result().names
    return RecoveryReport(
        rung=ladder.rung, generation=cluster.generation, freed=tuple(sorted(ladder.freed)), replaced=replaced,
        kept={str(rank): names.get(rank, ()) for rank in range(cluster.world_size) if rank not in replaced},
        lost={str(rank): names.get(rank, ()) for rank in replaced},
        steps=tuple(climbing.steps), check=climbing.check, elapsed_s=time.monotonic() - started,
    )  # fmt: skip


def _answered(future: Any) -> bool:
    return future.done() and future.exception() is None


def run_uninterrupted(work: Callable[[], RecoveryReport]) -> tuple[RecoveryReport, bool]:
    """Do a recovery to its end, which is seconds away, and only then hear an interrupt: half of one loses variables."""
    done: list[RecoveryReport | BaseException] = []
    over = threading.Event()  # an interrupted Thread.join leaves is_alive() wrong in Python 3.11

    def act() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            done.append(error)
        over.set()

    threading.Thread(target=act, name="labkit-recover", daemon=True).start()
    interrupted = False
    while not over.is_set():
        try:
            over.wait(0.05)
        except KeyboardInterrupt:
            interrupted = True
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0], interrupted
