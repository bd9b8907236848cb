"""Performs the instructions of the recovery ladder, and tells it what came of each."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from ..backends import find
from ..errors import LabkitError, RecoveryError
from ..processes import state_of_pid
from ..recovery import (
    Assessed,
    Continue,
    CutWaits,
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
    Restore,
    Settle,
)
from ..timings import MOVING_S, PROBE_AT_WORK_S, PROBE_MOST_S, PROBE_S, PROBE_TIMES, SETTLE_POLL_S
from ..wire import RecoveryReport
from .restoring import Cells, restore
from .transport import Pending, answered, errors_of, value_of

if TYPE_CHECKING:
    from .cluster import Cluster

CALM_LOOKS = 3


class _Doer:
    """Does what the ladder says to one cluster; decides nothing."""

    def __init__(self, cluster: Cluster, pending: Mapping[int, Pending], mode: str, cells: Cells) -> None:
        self.cluster, self.pending, self.mode, self.cells = cluster, pending, mode, cells

    def assess(self, *, broken: bool, force: bool, settled: bool) -> Assessed:
        """Every rank's process, whether it is busy, and whether its control thread answers.

        An error that a rank sends back is an answer too: only a rank that sends nothing can hold the interpreter lock.
        """
        cluster = self.cluster
        resumed = cluster.resume_controller()
        states = [state_of_pid(seat.pid) if seat.exit_code is None else "dead" for seat in cluster.seats]
        asked = {
            rank: cluster.transport.control(rank, "state", {"stack": False})
            for rank, state in enumerate(states)
            if state == "running"
        }
        asked_s = time.monotonic()
        pace_s = _probe(list(asked.values()), PROBE_S if settled else PROBE_AT_WORK_S)
        beats = cluster.feed.beats()  # a rank that makes calls holds no lock, however late its answer is
        ranks = tuple(
            RankState(rank, state, self._busy(rank), rank not in asked or answered(asked[rank]) or beats[rank] > asked_s)
            for rank, state in enumerate(states)
        )
        unformed = any((value_of(future) or {}).get("formed") is False for future in asked.values())
        moving = find(cluster.backend).drain_before_release and not settled
        return Assessed(ranks, broken or unformed or cluster.store_lost, force, cluster.lost, moving, pace_s, resumed)

    def _busy(self, rank: int) -> bool:
        return rank in self.pending and not self.pending[rank].done

    def perform(self, instruction: Instruction) -> Event | None:
        """Do one instruction; the event it ends in, if it has one."""
        match instruction:
            case CutWaits(ranks, wait_s):
                self._cut(ranks, wait_s)
            case Continue(ranks):
                for rank in ranks:
                    self.cluster.seats[rank].send(signal.SIGCONT)
            case Settle(ranks, most_s):
                self._settle(ranks, most_s)
            case Release(ranks, wait_s):
                errors = self._cut(ranks, wait_s)
                stuck = tuple(rank for rank in ranks if self._busy(rank))
                return ReleaseEnded(tuple(rank for rank in ranks if rank not in stuck), stuck, errors)
            case Replace(ranks):
                return self._replace(ranks)
            case Restart():
                self.cluster.restart()
            case Form():
                return self._form()
            case Restore(ranks):
                return restore(self.cluster, ranks, self.cells)
            case GiveUp(reason):
                raise RecoveryError(f"the world could not be brought back: {reason}", hint="world.stop(), then `labkit doctor`")
            case _:
                raise AssertionError(instruction)
        return None

    def _cut(self, ranks: tuple[int, ...], wait_s: float) -> tuple[str, ...]:
        """Have ranks cut their waits, and wait until their requests have ended; the errors of those that could not.

        A rank's answer is waited for as well: a cut that came late would hit the next generation while it forms.
        """
        asked = {rank: self.cluster.transport.control(rank, "release", {}) for rank in ranks}
        wait([*asked.values(), *(self.pending[rank].future for rank in ranks if rank in self.pending)], timeout=wait_s)
        return tuple(str(error) for error in errors_of(asked).values())

    def _settle(self, ranks: tuple[int, ...], most_s: float) -> None:
        """Interrupt ranks that are at work until several looks in a row find none."""
        halted: set[int] = set()
        calm = 0  # on a busy machine a rank at work may be without a core for as long as one look takes
        end_s = time.monotonic() + most_s
        while calm < CALM_LOOKS and any(map(self._busy, ranks)) and time.monotonic() < end_s:
            working = self._at_work(ranks)
            calm = 0 if working else calm + 1
            asked = {rank: self.cluster.transport.control(rank, "interrupt_main", {}) for rank in working - halted}
            wait(asked.values(), timeout=PROBE_S)
            halted |= {rank for rank, future in asked.items() if value_of(future)}
            wait([self.pending[rank].future for rank in working], timeout=SETTLE_POLL_S)

    def _at_work(self, ranks: tuple[int, ...]) -> set[int]:
        """Busy ranks that have made a call just now, were asked just now, or use a processor."""
        busy = [rank for rank in ranks if self._busy(rank)]
        asked = {rank: self.cluster.transport.control(rank, "process_idle", {}) for rank in busy}
        wait(asked.values(), timeout=PROBE_S)
        newest, beats = time.monotonic() - MOVING_S, self.cluster.feed.beats()
        moving = {rank for rank in busy if max(beats[rank], self.pending[rank].asked_s) > newest}
        return moving | {rank for rank, future in asked.items() if value_of(future) is False}

    def _replace(self, ranks: tuple[int, ...]) -> ReplaceEnded:
        try:
            self.cluster.twins.ask(ranks)  # they write while the new ranks start
            self.cluster.end_ranks(ranks)
            self.cluster.start_ranks(ranks)
        except LabkitError as error:
            return ReplaceEnded(ok=False, reason=error.what)
        return ReplaceEnded(ok=True)

    def _form(self) -> FormEnded:
        try:
            value = self.cluster.form(self.mode)
        except LabkitError as error:
            return FormEnded(ok=False, reason=error.what)
        return FormEnded(ok=True, generation=self.cluster.generation, value=value)


def _probe(asked: list[Future[Any]], least_s: float) -> float:
    """Give every rank time to answer, and say how long the slowest took: 0 if none did.

    A rank counts as mute only beside others that answered long before: on a busy machine all answers are late, and a
    rank that is merely slow must not lose its variables.
    """
    began, patience_s, pace_s = time.monotonic(), least_s, 0.0
    while (left := patience_s - (time.monotonic() - began)) > 0 and asked:
        done, open_ones = wait(asked, timeout=left, return_when=FIRST_COMPLETED)
        if done:
            pace_s = time.monotonic() - began
            patience_s = min(PROBE_MOST_S, max(least_s, PROBE_TIMES * pace_s))
        asked = list(open_ones)
        if not done and patience_s < PROBE_MOST_S and pace_s == 0:
            patience_s, pace_s = PROBE_MOST_S, PROBE_S  # nobody has answered: it is the machine
    return pace_s


def climb(
    cluster: Cluster, pending: Mapping[int, Pending], names: dict[int, tuple[str, ...]], *, mode: str, broken: bool,
    force: bool, settled: bool = False, cells: Cells = lambda rank: (),
) -> RecoveryReport:  # fmt: skip
    """Recover the world; RecoveryError if nothing helps.

    `settled`: it is known that no messages flow any more. `cells`: those that a rank has run.
    """
    started = time.monotonic()
    doer, ladder = _Doer(cluster, pending, mode, cells), Ladder(cluster.world_size)
    ladder.release_wait_s = find(cluster.backend).release_wait_s or ladder.release_wait_s
    todo = list(ladder.handle(doer.assess(broken=broken, force=force, settled=settled)))
    while not isinstance(todo[0], Finish):
        event = doer.perform(todo.pop(0))
        if event is not None:
            todo = list(ladder.handle(event))
    for rank, request in pending.items():  # a freed rank has told what its cell had made by then
        if request.done and rank not in ladder.replaced and request.future.result().names:
            names[rank] = request.future.result().names
    return ladder.report(names, cluster.generation, time.monotonic() - started)


def run_uninterrupted(work: Callable[[], RecoveryReport]) -> tuple[RecoveryReport, bool]:
    """Do a recovery to its end, and say whether an interrupt came meanwhile: half a recovery would lose variables."""
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
