"""The processes of one world: controller, store, and one engine per rank. Started, replaced, ended by pid."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from typing import Any

from ..errors import DeadlineExceeded, RankDead, RankError, StartError, join_ranks
from ..processes import Child, send, wait_ended
from ..ring import read_ring
from ..runfolder import RunFolder
from ..wire import Outcome, from_plain
from .feed import Feed, Seat
from .ipp import IppTransport
from .launch import Launcher
from .placement import HostLayout
from .spaces import Shape
from .transport import Pending, value_of
from .twins import Twins

FORM_TIMEOUT_S = 15.0
FORM_DELAYS = 60  # and so many delays of a link between hosts: four ranks need 30, one after the other
COME_UP_TIMEOUT_S = 60.0
FORM_MOST_S = 120.0
END_TIMEOUT_S = 5.0
WHERE_S = 0.5
WHY = "`labkit doctor` looks for the reason"
ANEW = "world.recover() starts all anew"
_LOG = logging.getLogger("labkit.cluster")
SLOW_LINKS = "groups form by some dozens of messages: give the links between the hosts more rate or less delay"


class Cluster:
    """What a world runs on. Every method has a deadline; after an error, `stop` takes everything away."""

    def __init__(
        self, folder: RunFolder, launcher: Launcher, seats: Sequence[Seat], *, backend: str, group_timeout_s: float,
        layout: HostLayout | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.launcher, self.backend = folder, launcher, backend
        self.seats = list(seats)
        self.group_timeout_s = group_timeout_s
        self.layout = layout  # the hosts that the ranks are on
        self.generation = 0
        self.transport: Any = None
        self.feed: Any = None
        self.twins = Twins(folder)
        self._children: dict[str, Child] = {}  # by name: "controller", "store", "rank 2", ...
        self._port = 0  # the store's
        self._store_key = secrets.token_hex(16)  # what the ranks' keys in the store begin with

    @property
    def world_size(self) -> int:
        return len(self.seats)

    @property
    def pids(self) -> dict[str, int]:
        """The number of each process that runs, by name: "controller", "store", "rank 0", ..."""
        return {name: child.pid for name, child in self._children.items() if child.pid and not child.ended.is_set()}

    @property
    def lost(self) -> bool:
        """Whether the controller or the folder is gone, and with it the way to every rank."""
        return self.controller_state() == "dead" or not self.folder.path.is_dir()

    @property
    def store_lost(self) -> bool:
        """Whether the store is gone: the groups go on, and no new one can be formed until `form` starts another."""
        return self._port == 0

    def controller_state(self) -> str:
        """ "running", "stopped" (SIGSTOP: no request and no answer passes until it goes on), or "dead"."""
        return self._children["controller"].state if "controller" in self._children else "dead"

    def check_reachable(self) -> None:
        """RankDead if the controller or the folder is gone, RankError if the controller is stopped: no request can pass.

        Takes some 0.1 ms, so whoever waits for answers can ask several times a second.
        """
        if not self.folder.path.is_dir():
            raise RankDead(f"{self.folder.path} was deleted, so no rank can be reached", hint=ANEW, ranks=[])
        state = self.controller_state()
        if state == "dead":
            raise RankDead("the controller has exited, so no rank can be reached", hint=ANEW, ranks=[])
        if state == "stopped":
            raise RankError(
                f"the controller (process {self._children['controller'].pid}) is stopped, so no rank can be reached",
                hint="world.recover() lets it go on",
                ranks=[],
            )

    def resume_controller(self) -> bool:
        """Let a stopped controller go on (SIGCONT); whether it was stopped. Answers that it held back come then."""
        controller = self._children.get("controller")
        if controller is None or controller.process is None or controller.state != "stopped":
            return False
        return send(controller.process, signal.SIGCONT)

    # ---- up
    def start(self, mode: str, say: Callable[[str], None] = lambda text: None) -> None:
        """Controller, store and ranks, and the first generation; `say` hears what is going on."""
        say(f"importing torch, and starting a controller and {self.world_size} ranks")
        self._start_all()
        say("the ranks form their first group")
        self.form(mode)

    def _start_all(self) -> None:
        """Everything at once: engines wait for their controller by themselves."""
        self.launcher.controller(self._child("controller"))
        self._launch(range(self.world_size))
        self._start_store()
        self.transport = IppTransport(self.folder.path, COME_UP_TIMEOUT_S)
        self.feed = Feed(self.folder.path, self.seats, self.transport)
        self._await(range(self.world_size))

    def _start_store(self) -> None:
        env = self.layout.store_environment() if self.layout else {}
        self._port = self.launcher.store(self._child("store"), env)

    def _child(self, name: str) -> Child:
        """A child to be started; from now on it is the one of this name, and the exit of an earlier one changes nothing."""
        self._children[name] = child = Child(name, self._exited)
        return child

    def start_ranks(self, ranks: Sequence[int] | range) -> None:
        """Start these ranks and wait until they can be reached."""
        self._launch(ranks)
        self._await(ranks)

    def _launch(self, ranks: Sequence[int] | range) -> None:
        if self.layout is not None:
            self.layout.check()
        for rank in ranks:
            seat = self.seats[rank]
            seat.exit_code = None
            env = {
                **seat.env, "LABKIT_RANK": str(rank), "LABKIT_WORLD_SIZE": str(self.world_size),
                "LABKIT_RUN_DIR": str(self.folder.path), "LABKIT_BACKEND": self.backend, "LABKIT_DEVICE": seat.device,
                "LABKIT_STORE_KEY": self._store_key,
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.world_size),
            }  # fmt: skip
            child = self._child(f"rank {rank}")
            self.launcher.rank(child, rank, env)
            seat.pid, seat.process = child.pid, child.process
            if child.ended.is_set():  # told before its number was known here
                self._exited(child)

    def _await(self, ranks: Sequence[int] | range) -> None:
        """Wait until ranks can be reached; StartError with its last words for one that ends instead."""
        end = time.monotonic() + COME_UP_TIMEOUT_S
        while True:
            try:
                self.transport.wait_for_ranks(list(ranks), 0.5)
            except DeadlineExceeded as error:
                ended = [rank for rank in ranks if self.seats[rank].exit_code is not None]
                if ended:
                    words = last_line(Path(self.folder.log(f"rank-{ended[0]}")))
                    raise StartError(
                        f"{join_ranks(ended)} exited while starting: {words or 'nothing was printed'}",
                        hint=WHY,
                        ranks=ended,
                    ) from None
                if time.monotonic() > end:
                    late = list(error.ranks)
                    raise DeadlineExceeded(
                        f"{join_ranks(late)} did not come up in {COME_UP_TIMEOUT_S:g} s", hint=WHY, ranks=late
                    ) from None
            else:
                return

    def form(self, mode: str) -> float:
        """Form the next generation on all ranks; the value of the check all-reduce. RankError if it fails."""
        if self.layout is not None:
            self.layout.check_wire()
        if self._port == 0:
            self._start_store()
        self.generation += 1
        payload = {
            "generation": self.generation, "host": self.layout.store_host if self.layout else "127.0.0.1", "port": self._port,
            "timeout_s": self.group_timeout_s, "mode": mode,
        }  # fmt: skip
        pendings = [self.transport.request(rank, "form", payload) for rank in range(self.world_size)]
        values = [outcome.value["value"] for outcome in self._joined(pendings)]
        expected = self.world_size * (self.world_size + 1) / 2
        if values != [expected] * self.world_size:
            raise RankError(f"the check all-reduce gave {values}, not {expected:g}", hint=WHY, ranks=[])
        return expected

    def _joined(self, pendings: list[Pending]) -> list[Outcome]:
        """Every rank's outcome; the first failure is told at once, though the others may wait for that rank."""
        delay_s = self.layout.shape.delay_s if self.layout is not None else 0.0
        end = time.monotonic() + FORM_TIMEOUT_S + min(FORM_DELAYS * delay_s, FORM_MOST_S)
        while True:
            open_ones = [pending.future for pending in pendings if not pending.done]
            failed = next((p for p in pendings if p.done and not p.future.result().outcome.ok), None)
            if failed is not None:
                outcome = failed.future.result().outcome
                raise RankError(
                    f"rank {failed.rank} could not join: {outcome.error or outcome.status}",
                    hint=WHY,
                    ranks=[failed.rank],
                )
            if not open_ones:
                return [pending.future.result().outcome for pending in pendings]
            if time.monotonic() > end:
                late = [p.rank for p in pendings if not p.done]
                hint = WHY if self.layout is None or self.layout.shape == Shape() else SLOW_LINKS
                what = f"{join_ranks(late)} did not join generation {self.generation}{self._where(late)}"
                raise DeadlineExceeded(what, hint=hint, ranks=late)
            wait(open_ones, timeout=0.1, return_when=FIRST_COMPLETED)

    # ---- endings

    def _where(self, ranks: Sequence[int]) -> str:
        """Where ranks are that have not joined, as the end of a sentence; "" if none of them answers."""
        asked = {rank: self.transport.control(rank, "state", {}) for rank in ranks}
        wait(asked.values(), timeout=WHERE_S)
        stacks = {rank: from_plain((value_of(future) or {}).get("stack", [])) for rank, future in asked.items()}
        places = [f"rank {rank} is in {stack[-1].function}, {stack[-1].site}" for rank, stack in stacks.items() if stack]
        return f": {'; '.join(places)}" if places else ""

    def _exited(self, child: Child) -> None:
        """Called from the launcher's thread of exits."""
        self.folder.forget(child.process)
        if self._children.get(child.name) is not child:
            return  # one that we have ended and replaced
        if child.name == "store":
            self._port = 0
        elif child.name != "controller":
            rank = int(child.name.removeprefix("rank "))
            self.seats[rank].exit_code = child.exit_code
            if self.transport is not None:
                self.transport.rank_gone(rank)

    def end_ranks(self, ranks: Sequence[int], timeout_s: float = END_TIMEOUT_S) -> None:
        """Kill ranks and wait until they and their ids are gone."""
        children = [self._children[f"rank {rank}"] for rank in ranks]
        for child in children:
            child.kill()
        if left := wait_ended(children, timeout_s):
            late = [rank for rank, child in zip(ranks, children, strict=True) if child in left]
            raise DeadlineExceeded(f"{join_ranks(late)} did not end", hint="`labkit stop` tries again", ranks=late)
        for rank, child in zip(ranks, children, strict=True):
            self.seats[rank].exit_code = child.exit_code
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
        self.twins.listen()
        for name in ("client", "engine"):
            (self.folder.path / "security" / f"ipcontroller-{name}.json").unlink(missing_ok=True)
        self._start_all()

    def _end_all(self) -> list[Child]:
        """End every process and wait until that is told; those that did not end. What follows from an exit is over first."""
        children, self._children = list(self._children.values()), {}
        if self.transport is not None:
            self.transport.close()
        for child in children:
            child.kill()
        left = wait_ended(children, END_TIMEOUT_S)
        for child in left:
            _LOG.warning("%s (process %d) did not end in %g s; `labkit stop` tries again", child.name, child.pid, END_TIMEOUT_S)
        return left

    @property
    def hosts(self) -> tuple[int, ...]:
        """The host that each rank is on; empty where all are on this machine as it is."""
        return self.layout.places if self.layout is not None else ()

    def stop(self, *, keep_hosts: bool = False) -> None:
        """End everything and remove the folder."""
        left = self._end_all()
        self.twins.close()
        self.launcher.close()
        if self.layout is not None and not keep_hosts:
            self.layout.close()
        if not left:  # else the note in it is how they are found later
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
