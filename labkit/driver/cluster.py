"""The processes of one world: controller, store, and one engine per rank. Started, replaced, ended by pid."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import DeadlineExceeded, RankError, StartError, join_ranks
from ..ring import read_ring
from ..wire import Outcome
from .feed import Feed, Seat
from .ipp import IppTransport
from .launch import Launcher, kill
from .placement import Ground
from .rundir import RunDir
from .spaces import Shape
from .transport import Pending

FORM_TIMEOUT_S = 15.0
FORM_DELAYS = 60  # and so many delays of a link between hosts: four ranks need 30, one after the other
COME_UP_TIMEOUT_S = 60.0
FORM_MOST_S = 120.0
SLOW_LINKS = "groups form by some dozens of messages: give the links between the hosts more rate or less delay"


class Cluster:
    """What a world runs on. Every method has a deadline; after an error, `stop` takes everything away."""

    def __init__(
        self, folder: RunDir, launcher: Launcher, seats: Sequence[Seat], *, backend: str, group_timeout_s: float,
        under: Ground | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.launcher, self.backend = folder, launcher, backend
        self.seats = list(seats)
        self.group_timeout_s = group_timeout_s
        self.under = under  # the hosts that the ranks are on
        self.generation = 0
        self.transport: Any = None
        self.feed: Any = None
        self._store = (0, 0)
        self._controller = 0
        self._stopping = False
        self._helpers = object()
        self._ended = threading.Condition()

    @property
    def world_size(self) -> int:
        return len(self.seats)

    @property
    def lost(self) -> bool:
        """Whether the controller or the folder is gone, and with it the way to every rank."""
        return self._controller == 0 or not self.folder.path.is_dir()

    # ---- up
    def start(self, mode: str, say: Callable[[str], None] = lambda text: None) -> None:
        """Controller, store and ranks, and the first generation; `say` hears what is going on."""
        say(f"importing torch, and starting a controller and {self.world_size} ranks")
        self._start_all()
        say("the ranks form their first group")
        self.form(mode)

    def _start_all(self) -> None:
        """Everything at once: engines wait for their controller by themselves."""
        self._helpers = object()  # a helper of an earlier start that is told to have ended must not take this one's place
        self._controller = self.launcher.controller(partial(self._lost, "controller", self._helpers))
        self._launch(range(self.world_size))
        self._start_store()
        self.transport = IppTransport(self.folder.path, COME_UP_TIMEOUT_S)
        self.feed = Feed(self.folder.path, self.seats, self.transport)
        self._await(range(self.world_size))

    def _start_store(self) -> None:
        env = self.under.store_environment() if self.under else {}
        self._store = self.launcher.store(env, partial(self._lost, "store", self._helpers))

    def start_ranks(self, ranks: Sequence[int] | range) -> None:
        """Start these ranks and wait until they can be reached."""
        self._launch(ranks)
        self._await(ranks)

    def _launch(self, ranks: Sequence[int] | range) -> None:
        if self.under is not None:
            self.under.check()
        for rank in ranks:
            seat = self.seats[rank]
            seat.exit_code = None
            env = {
                **seat.env, "LABKIT_RANK": str(rank), "LABKIT_WORLD_SIZE": str(self.world_size),
                "LABKIT_RUN_DIR": str(self.folder.path), "LABKIT_BACKEND": self.backend, "LABKIT_DEVICE": seat.device,
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.world_size),
            }  # fmt: skip
            # the exit may be told before `pid` is known here, so the seat is told apart by a token
            seat.token = token = object()
            seat.pid = self.launcher.rank(rank, env, partial(self._rank_ended, rank, token))

    def _await(self, ranks: Sequence[int] | range) -> None:
        """Wait until ranks can be reached; StartError with its last words for one that ends instead."""
        end = time.monotonic() + COME_UP_TIMEOUT_S
        while True:
            try:
                self.transport.wait_for_ranks(list(ranks), 0.5)
            except DeadlineExceeded:
                ended = [rank for rank in ranks if self.seats[rank].exit_code is not None]
                if ended:
                    words = last_line(Path(self.folder.log(f"rank-{ended[0]}")))
                    raise StartError(
                        f"{join_ranks(ended)} ended while starting: {words or 'without a word'}",
                        hint="`labkit doctor`",
                        ranks=ended,
                    ) from None
                if time.monotonic() > end:
                    raise
            else:
                return

    def form(self, mode: str) -> float:
        """Form the next generation on all ranks; the value of the check all-reduce. RankError if it fails."""
        if self.under is not None:
            self.under.check_wire()
        if self._store[0] == 0:
            self._start_store()
        self.generation += 1
        payload = {
            "generation": self.generation, "host": self.under.store_host if self.under else "127.0.0.1", "port": self._store[1],
            "timeout_s": self.group_timeout_s, "mode": mode,
        }  # fmt: skip
        pendings = [self.transport.request(rank, "form", payload) for rank in range(self.world_size)]
        values = [outcome.value["value"] for outcome in self._joined(pendings)]
        expected = self.world_size * (self.world_size + 1) / 2
        if values != [expected] * self.world_size:
            raise RankError(f"the check all-reduce gave {values}, not {expected:g}", hint="`labkit doctor`", ranks=[])
        return expected

    def _joined(self, pendings: list[Pending]) -> list[Outcome]:
        """Every rank's outcome; the first failure is told at once, though the others may wait for that rank."""
        delay_s = self.under.shape.delay_s if self.under is not None else 0.0
        end = time.monotonic() + FORM_TIMEOUT_S + min(FORM_DELAYS * delay_s, FORM_MOST_S)
        while True:
            open_ones = [pending.future for pending in pendings if not pending.done]
            failed = next((p for p in pendings if p.done and not p.future.result().outcome.ok), None)
            if failed is not None:
                outcome = failed.future.result().outcome
                raise RankError(
                    f"rank {failed.rank} could not join: {outcome.error or outcome.status}",
                    hint="`labkit doctor`",
                    ranks=[failed.rank],
                )
            if not open_ones:
                return [pending.future.result().outcome for pending in pendings]
            if time.monotonic() > end:
                late = [p.rank for p in pendings if not p.done]
                hint = "`labkit doctor`" if self.under is None or self.under.shape == Shape() else SLOW_LINKS
                raise DeadlineExceeded(f"{join_ranks(late)} did not join generation {self.generation}", hint=hint, ranks=late)
            wait(open_ones, timeout=0.1, return_when=FIRST_COMPLETED)

    # ---- endings
    def _rank_ended(self, rank: int, token: object, status: int) -> None:
        seat = self.seats[rank]
        if seat.token is not token:
            return
        with self._ended:
            seat.exit_code = status
            self._ended.notify_all()
        kill(seat.pid)  # what it had started in its session
        self.folder.forget(seat.pid)
        if not self._stopping and self.transport is not None:
            self.transport.rank_gone(rank)

    def _lost(self, what: str, helpers: object, status: int) -> None:
        if helpers is not self._helpers:
            return
        if what == "store":
            self._store = (0, 0)
        else:
            pid, self._controller = self._controller, 0
            if pid:
                kill(pid)  # its own child lives in the same session, and is not told

    def end_ranks(self, ranks: Sequence[int], timeout_s: float = 5.0) -> None:
        """Kill ranks by their recorded pids and wait until they and their ids are gone."""
        for rank in ranks:
            if self.seats[rank].exit_code is None:
                kill(self.seats[rank].pid)
        end = time.monotonic() + timeout_s
        with self._ended:
            while any(self.seats[rank].exit_code is None for rank in ranks):
                if not self._ended.wait(max(0.0, end - time.monotonic())):
                    raise DeadlineExceeded(f"{join_ranks(ranks)} did not end", hint="`labkit stop`", ranks=list(ranks))
        for rank in ranks:
            self.transport.rank_gone(rank)
        for rank in ranks:
            self.transport.wait_gone(rank, timeout_s)

    def fired(self, rank: int) -> int:
        """How many faults have fired in this rank's life, by its beacon."""
        state = read_ring(self.folder.path / self.seats[rank].beacon)
        return state.fired if state is not None and state.pid == self.seats[rank].pid else 0

    def restart(self) -> None:
        """A new controller, store and ranks; the last rung."""
        self._end_all()
        self.folder.restore()
        for name in ("client", "engine"):
            (self.folder.path / "security" / f"ipcontroller-{name}.json").unlink(missing_ok=True)
        self._start_all()

    def _end_all(self) -> None:
        self._stopping = True
        try:
            if self.transport is not None:
                self.transport.close()
            for seat in self.seats:
                if seat.pid and seat.exit_code is None:
                    kill(seat.pid)
            for pid in (self._controller, self._store[0]):
                if pid:
                    kill(pid)
        finally:
            self._stopping = False

    @property
    def hosts(self) -> tuple[int, ...]:
        """The host that each rank is on; empty where all are on this machine as it is."""
        return self.under.places if self.under is not None else ()

    def stop(self, *, keep_hosts: bool = False) -> None:
        """End everything and remove the folder."""
        self._end_all()
        self.launcher.close()
        if self.under is not None and not keep_hosts:
            self.under.close()
        self.folder.remove()


def last_line(log: Path) -> str:
    """The last line of a process's output that is neither empty nor a warning of torch's C++ parts, "" if there is none."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip() and not line.startswith("[W")), "")


def seat_environment(world_size: int) -> dict[str, str]:
    """What every rank's environment says besides its identity.

    Threads: ranks share the cores.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    env = {"OMP_NUM_THREADS": given if given.isdecimal() else str(max(1, (os.cpu_count() or 1) // world_size))}
    env["PYTHONWARNINGS"] = ""  # "error" is meant for the learner's tests, not for the engine they run in
    return env
