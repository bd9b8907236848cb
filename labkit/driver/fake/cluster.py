"""What a world holds when it is fake: cluster, transport and feed over ranks that take turns in this process."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ...errors import RankDead, RankError, join_ranks
from ...runfolder import RunFolder
from ...schedule.cost import Link
from ...wire import Evidence
from ..feed import Seat
from ..transport import OnOutput, Pending, Reply
from .meeting import Meetings
from .messages import LINK
from .ops import serve
from .rank import FakeRank
from .turns import Seconds

FIRST_PID = 4_000_001  # above what a Linux system gives by default; nobody is ever signalled by it


class FakeLauncher:
    """Only its name is asked for."""

    name = "fake"


class FakeCluster:
    """Stands in for `Cluster`: the same methods, no process, folder or port behind them.

    `fail("form", 2)` makes the next two calls of `form` (or of `start_ranks`) fail, to see what recovery makes of it.
    """

    def __init__(self, world_size: int, *, backend: str = "gloo", link: Link = LINK) -> None:
        self.backend, self.generation, self.mode = backend, 0, "raw"
        self.launcher = FakeLauncher()
        self.folder = RunFolder(Path(os.devnull))  # there is none, and nothing can be put into it
        self.clock = Seconds(self.settle, self._sleepers)
        self.seats = [Seat(rank) for rank in range(world_size)]
        self.ranks: list[FakeRank] = []
        self._pids = itertools.count(FIRST_PID)
        self._failures: dict[str, int] = {}
        self._link = link
        self._meetings = Meetings(self.ranks, link)
        self.transport = FakeTransport(self)
        self.feed = FakeFeed(self)
        self.restarts = 0
        self._lost = False

    @property
    def world_size(self) -> int:
        return len(self.seats)

    @property
    def hosts(self) -> tuple[int, ...]:
        """None of its ranks is on a host of its own."""
        return ()

    @property
    def lost(self) -> bool:
        """There is no controller to lose; `lose` says that it were so."""
        return self._lost

    @property
    def pids(self) -> dict[str, int]:
        """The numbers of its ranks, which are no processes."""
        return {f"rank {rank.rank}": rank.pid for rank in self.ranks if rank.exit_code is None}

    def controller_state(self) -> str:
        """It is lost, or fine: nobody can stop what is no process."""
        return "dead" if self._lost else "running"

    def check_reachable(self) -> None:
        """RankDead after `lose`."""
        if self._lost:
            raise RankDead("the controller has exited, so no rank can be reached", hint="world.recover()", ranks=[])

    def resume_controller(self) -> bool:
        """It never stops."""
        return False

    def lose(self) -> None:
        """As if the controller had ended."""
        self._lost = True

    def start(self, mode: str) -> None:
        """Every rank, and the first generation."""
        self.start_ranks(range(self.world_size))
        self.form(mode)

    def fail(self, what: str, times: int = 1) -> None:
        """Let the next calls of "form" or "start_ranks" fail."""
        self._failures[what] = times

    def _may_fail(self, what: str, ranks: Sequence[int]) -> None:
        if self._failures.get(what, 0) > 0:
            self._failures[what] -= 1
            raise RankError(f"{what} was told to fail", hint="it is part of the script", ranks=tuple(ranks))

    def start_ranks(self, ranks: Sequence[int] | range) -> None:
        """New ranks in these seats."""
        self._may_fail("start_ranks", ranks)
        for rank in ranks:
            new = FakeRank(rank, self.world_size, next(self._pids), self.clock, self._ended)
            self.ranks[rank : rank + 1] = [new]
            self.seats[rank].pid, self.seats[rank].exit_code = new.pid, None

    def form(self, mode: str) -> float:
        """The next generation on all ranks; the value of the check all-reduce."""
        busy = [rank.rank for rank in self.ranks if rank.busy or rank.exit_code is not None]
        self.generation += 1
        if busy:
            raise RankError(f"{join_ranks(busy)} did not join", hint="world.recover() brings them back", ranks=busy)
        self._may_fail("form", range(self.world_size))
        self.mode = mode
        self._meetings = Meetings(self.ranks, self._link)
        for rank in self.ranks:
            rank.form(self.generation, mode, self._meetings)
        return self.world_size * (self.world_size + 1) / 2

    def _ended(self, rank: FakeRank) -> None:
        self.seats[rank.rank].exit_code = rank.exit_code
        self._meetings.lost(rank.rank)

    def end_ranks(self, ranks: Sequence[int], timeout_s: float = 5.0) -> None:
        """As by SIGKILL."""
        for rank in ranks:
            self.ranks[rank].die(-9)
        self.settle()

    def fired(self, rank: int) -> int:
        return self.ranks[rank].num_fired

    def restart(self) -> None:
        """All ranks anew."""
        self.restarts += 1
        self._lost = False
        self.end_ranks(range(self.world_size))
        self.start_ranks(range(self.world_size))

    def stop(self, *, keep_hosts: bool = False) -> None:
        """End every rank; no thread is left."""
        self.end_ranks(range(self.world_size))

    # ---- turns
    def settle(self) -> None:
        """Let ranks run, lowest first, until everybody waits."""
        while able := next((rank for rank in self.ranks if rank.can_go_on), None):
            able.go_on()

    def _sleepers(self) -> list[float]:
        return [rank.asleep_until_s for rank in self.ranks if rank.asleep_until_s is not None and rank.pid.state == "running"]


class FakeFuture(Future[Reply]):
    """A wait for it lets the world's time pass, not ours."""

    def __init__(self, clock: Seconds) -> None:
        super().__init__()
        self._clock = clock

    def result(self, timeout: float | None = None) -> Reply:
        if not self.done():
            self._clock.advance(3600.0 if timeout is None else timeout)
        return super().result(0)


class FakeTransport:
    """Requests reach ranks by a call; those of one cell all start before any of them is given a turn."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def wait_for_ranks(self, ranks: Sequence[int], timeout_s: float) -> None:
        """They are there."""

    def request(
        self,
        rank: int,
        op: str,
        payload: dict[str, Any],
        *,
        turn: int = 0,
        buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> Pending:
        pending = Pending(rank, op, int(payload.get("cell", 0)), on_output)
        pending.future = FakeFuture(self._cluster.clock)
        one = self._cluster.ranks[rank]
        if one.exit_code is not None:
            pending.fail("dead")
            return pending
        one.start(pending, turn, lambda: serve(one, pending, payload, list(buffers)))
        self._cluster.settle()
        return pending

    def control(self, rank: int, op: str, payload: dict[str, Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        one = self._cluster.ranks[rank]
        if one.pid.state != "running" or one.mute:
            answer.set_exception(RankDead(f"rank {rank} does not answer", hint="world.recover() replaces it", ranks=[rank]))
            return answer
        if op == "refuse" and one.request == payload["turn"]:
            one.refusal = payload["reason"]
        elif op == "release":
            one.release()
        self._cluster.settle()
        answer.set_result({"busy": one.busy, "cell": one.cell, "generation": one.generation, "mode": one.mode})
        return answer

    def rank_gone(self, rank: int) -> None:
        """A fake rank has told so itself."""

    def wait_gone(self, rank: int, timeout_s: float) -> None:
        """It is gone at once."""

    def close(self) -> None:
        """There is nothing to close."""


class Beats:
    """When each rank last moved; brings the clock that a cell is to be watched by."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.clock = cluster.clock

    def __call__(self) -> tuple[float, ...]:
        return tuple(rank.beat_s for rank in self._cluster.ranks)


class FakeFeed:
    """Evidence from the ranks themselves; its times are the machine's, as if the fake seconds had been real ones."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.beats = Beats(cluster)

    def look(self, base: Evidence, *, ask: bool = True, sources: Callable[[int], str] | None = None) -> Evidence:
        """`base` with the ranks filled in."""
        taken_s = time.monotonic()
        views = tuple(rank.view(taken_s - self._cluster.clock.now_s(), ask=ask) for rank in self._cluster.ranks)
        cells = {call.cell for view in views for call in view.calls} | {view.cell for view in views}
        texts = {str(cell): sources(cell) for cell in cells if cell} if sources else {}
        return dataclasses.replace(base, ranks=views, taken_s=taken_s, sources=texts)
