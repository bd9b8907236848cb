"""A world whose ranks follow a script: the real `World`, its cells, recovery and views, without processes and without waiting.

A test says what each rank answers, which calls its beacon shows, and how its process is. Nothing is computed: what real
ranks do is told by recordings (`labkit.testing.replay`) and by live tests.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ..errors import RankDead, RankError, join_ranks
from ..places import cell_name
from ..processes import ScriptedPid
from ..runfolder import RunFolder
from ..wire import Call, CallSite, CodeError, Evidence, Outcome, Shown, Stream, dumps, loads
from .acts import Act, Acts, Rank, ScriptClock
from .core import Listener
from .feed import Seat, cells_of
from .transport import OnOutput, Pending, Reply
from .twins import Kept
from .world import DEADLINE_S, World

FIRST_PID = 4_000_001  # above what a Linux system gives by default; nobody is ever signalled by it
CUT = "RuntimeError: Connection closed by peer"


class Script:
    """A cluster, its transport and its feed at once, all of them scripted.

    >>> from labkit.driver.acts import raises
    >>> script = Script(ranks=2)
    >>> with script.world() as world:
    ...     script.on("cell", {1: raises("ValueError: no data", line=2)})
    ...     [outcome.status for outcome in world.run_cell("...").outcomes]
    ['ok', 'error']
    """

    def __init__(self, ranks: int = 4, *, backend: str = "gloo", hosts: Sequence[int] = ()) -> None:
        self.backend, self.generation, self.mode, self.hosts = backend, 0, "raw", tuple(hosts)
        self.launcher, self.layout = SimpleNamespace(name="scripted"), None
        self.folder = RunFolder(Path(os.devnull))  # there is none, and nothing can be put into it
        self.clock = ScriptClock(self._answer_due)
        self.seats = [Seat(rank) for rank in range(ranks)]
        self.ranks: list[Rank] = []
        self.asked: list[tuple[int, str, dict[str, Any]]] = []  # (rank, op, payload) of every request, in order
        self.lost, self.store_lost, self.restarts = False, False, 0
        self._request, self._acts = 0, cast(Acts, Act())
        self._next: dict[str, deque[Acts]] = {}
        self._always: dict[str, Acts] = {}
        self._failures: dict[str, int] = {}
        self._pids = itertools.count(FIRST_PID)
        self.transport, self.feed, self.twins = ScriptedTransport(self), ScriptedFeed(self), ScriptedTwins()

    def world(self, *, mode: str = "raw", deadline_s: float = DEADLINE_S, listeners: Sequence[Listener] = ()) -> World:
        """A world of these ranks, started."""
        self.start(mode)
        return World(cast(Any, self), mode=mode, deadline_s=deadline_s, listeners=listeners)

    # ---- what the test says
    def on(self, op: str, acts: Acts, *, always: bool = False) -> None:
        """How ranks take the next request of this op: one Act for all, by rank, or made by a function of rank and payload.

        Several calls are used up in their order; with `always`, it holds for every request that has no act of its own.
        """
        if always:
            self._always[op] = acts
        else:
            self._next.setdefault(op, deque()).append(acts)

    def fail(self, what: str, times: int = 1) -> None:
        """Let the next calls of "form" or "start_ranks" fail."""
        self._failures[what] = times

    def check_reachable(self) -> None:
        """RankDead where the controller is lost."""
        if self.lost:
            raise RankDead("the controller has exited, so no rank can be reached", hint="world.recover()", ranks=[])

    def controller_state(self) -> str:
        """As `process_state`."""
        return "dead" if self.lost else "running"

    def resume_controller(self) -> bool:
        """It is never stopped."""
        return False

    @property
    def pids(self) -> dict[str, int]:
        """The numbers of its ranks, which are no processes."""
        return {f"rank {one.rank}": one.pid for one in self.ranks if one.pid.state != "dead"}

    # ---- requests
    def take(self, pending: Pending, payload: dict[str, Any], request: int) -> None:
        """A rank gets a request."""
        self.asked.append((pending.rank, pending.op, payload))
        one, now_s = self.ranks[pending.rank], self.clock.now_s()
        if one.pid.state == "dead":
            pending.fail("dead")
            return
        act = self._act_of(pending, payload, request)
        one.act, one.pending, one.request, one.due_s = act, pending, request, float("inf")
        one.started_s = one.beat_s = now_s
        if pending.op == "cell":
            one.cell, one.error = payload["cell"], None
        one.fired += act.fires
        one.calls += [self._placed(each, one, index) for index, each in enumerate(act.calls, start=len(one.calls) + 1)]
        one.pid.state = act.process
        if act.process == "dead":
            self._end(one, -9)
        elif act.status != "late" and act.process == "running":
            one.due_s = now_s + act.after_s
            self._answer_due(now_s)

    def _act_of(self, pending: Pending, payload: dict[str, Any], request: int) -> Act:
        if request != self._request:
            queue = self._next.get(pending.op)
            self._request, self._acts = request, queue.popleft() if queue else self._always.get(pending.op, Act())
        acts = self._acts
        if isinstance(acts, Act):
            return acts
        return acts(pending.rank, payload) if callable(acts) else acts.get(pending.rank, Act())

    def _placed(self, each: Call, one: Rank, index: int) -> Call:
        site = replace(each.site, file=cell_name(one.cell)) if each.site is not None and each.site.file == "cell" else each.site
        now_s = self.clock.now_s()
        return replace(
            each, index=index, group_ranks=each.group_ranks or tuple(range(self.world_size)), cell=one.cell, site=site,
            request_id=one.request if each.algorithm else 0, issued_s=now_s, returned_s=0.0 if each.state == "issued" else now_s,
        )  # fmt: skip

    def _answer_due(self, now_s: float) -> None:
        for one in self.ranks:
            if one.busy and one.due_s <= now_s and one.pid.state == "running":
                act = one.act
                if act.printed and one.pending is not None:
                    one.pending.add_output("stdout", act.printed)
                one.end_calls("failed" if act.error else "done")
                self._answer(one, act.status, act.error)

    def _answer(self, one: Rank, status: str, error: str = "") -> None:
        if one.pending is None or one.pending.done:
            return
        raised = None
        if error:
            kind, _, message = error.partition(": ")
            raised = CodeError(kind, message, CallSite(cell_name(one.cell), one.act.line) if one.pending.op == "cell" else None)
            one.error = raised
        one.beat_s = self.clock.now_s()
        value, shown = (one.act.value, Shown(one.act.shown) if one.act.shown else None) if status == "ok" else (None, None)
        output = tuple(Stream(each.name, each.text) for each in one.pending.output)
        outcome = Outcome(one.rank, status, value, shown, output, raised, one.beat_s - one.started_s)
        # as if from another process
        one.pending.resolve(Reply(loads(dumps(outcome)), one.act.names, list(one.act.buffers), one.act.findings))

    def free(self, one: Rank) -> None:
        """What a release does to a busy rank: its wait is cut, or its code is interrupted."""
        if one.pid.state != "running" or not one.act.frees or not one.act.answers:
            return
        waiting = one.waits
        one.end_calls("failed")
        self._answer(one, "error" if waiting else "interrupted", CUT if waiting else "")

    def refuse(self, one: Rank, payload: dict[str, Any]) -> None:
        """Safe mode: a rank that waits in a call is told why it will not come to pass."""
        if one.request == payload["request_id"] and one.waits:
            one.end_calls("refused")
            self._answer(one, "error", f"ContractError: the call was refused: {payload['reason']}")

    # ---- what a cluster does
    @property
    def world_size(self) -> int:
        return len(self.seats)

    def start(self, mode: str, say: Callable[[str], None] = lambda text: None) -> None:
        """Every rank, and the first generation."""
        self._request = 0  # a world counts its requests from 1
        self.start_ranks(range(self.world_size))
        self.form(mode)

    def start_ranks(self, ranks: Sequence[int] | range) -> None:
        """New ranks in these seats."""
        self._may_fail("start_ranks", ranks)
        for rank in ranks:
            self.ranks[rank : rank + 1] = [Rank(rank, ScriptedPid(next(self._pids)))]
            self.seats[rank].pid, self.seats[rank].exit_code = self.ranks[rank].pid, None

    def form(self, mode: str) -> float:
        """The next generation on all ranks; the value of the check all-reduce."""
        busy = [one.rank for one in self.ranks if one.busy or one.pid.state != "running"]
        self.generation += 1
        if busy:
            raise RankError(f"{join_ranks(busy)} did not join", hint="world.recover() brings them back", ranks=busy)
        self._may_fail("form", range(self.world_size))
        self.mode, self.store_lost = mode, False
        for one in self.ranks:
            one.calls.clear()
        return self.world_size * (self.world_size + 1) / 2

    def _may_fail(self, what: str, ranks: Sequence[int] | range) -> None:
        if self._failures.get(what, 0) > 0:
            self._failures[what] -= 1
            raise RankError(f"{what} was told to fail", hint="the script says so", ranks=tuple(ranks))

    def _end(self, one: Rank, exit_code: int) -> None:
        one.pid.state, self.seats[one.rank].exit_code = "dead", exit_code
        if one.pending is not None:
            one.pending.fail("dead")

    def end_ranks(self, ranks: Sequence[int], timeout_s: float = 5.0) -> None:
        """As by SIGKILL."""
        for rank in ranks:
            self._end(self.ranks[rank], -9)

    def fired(self, rank: int) -> int:
        """How many faults have fired on a rank."""
        return self.ranks[rank].fired

    def restart(self) -> None:
        """All ranks anew."""
        self.restarts += 1
        self.lost = False
        self.end_ranks(range(self.world_size))
        self.start_ranks(range(self.world_size))

    def stop(self, *, keep_hosts: bool = False) -> None:
        """End every rank."""
        self.end_ranks(range(self.world_size))


class ScriptedTransport:
    """Requests reach a scripted rank by a call."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def wait_for_ranks(self, ranks: Sequence[int], timeout_s: float) -> None:
        """They are there."""

    def request(
        self, rank: int, op: str, payload: dict[str, Any], *, request_id: int = 0, buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> Pending:  # fmt: skip
        pending = Pending(rank, op, int(payload.get("cell", 0)), on_output)
        self._script.take(pending, payload, request_id)
        return pending

    def control(self, rank: int, op: str, payload: dict[str, Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        one = self._script.ranks[rank]
        if one.pid.state != "running" or (one.busy and not one.act.answers):
            answer.set_exception(RankDead(f"rank {rank} does not answer", hint="world.recover() replaces it", ranks=[rank]))
            return answer
        cut = op == "release" or (op == "end_wait" and one.waits)
        if op == "refuse":
            self._script.refuse(one, payload)
        elif cut:
            self._script.free(one)
        answer.set_result({"busy": one.busy, "formed": True, "cut": int(cut)})
        return answer

    def rank_gone(self, rank: int) -> None:
        """The script knows."""

    def wait_gone(self, rank: int, timeout_s: float) -> None:
        """It is gone at once."""

    def close(self) -> None:
        """There is nothing to close."""


class ScriptedTwins:
    """A scripted rank has none; what a new rank is given is what the script's "restore" answers."""

    def ask(self, ranks: Sequence[int]) -> None:
        """Nothing is written."""

    def take(self, rank: int) -> Kept:
        """Nothing was written."""
        return Kept(cell=1)


class _Beats:
    """When each rank last moved; brings the clock that a request is to be watched by."""

    def __init__(self, script: Script) -> None:
        self._script, self.clock = script, script.clock

    def __call__(self) -> tuple[float, ...]:
        return tuple(one.beat_s for one in self._script.ranks)


class ScriptedFeed:
    """Evidence as the script has it; its times are the machine's."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.beats = _Beats(script)

    def num_calls(self) -> tuple[int, ...]:
        """How many calls each rank has made."""
        return tuple(len(view.calls) for view in self.glance(Evidence(self._script.world_size)).ranks)

    def glance(self, base: Evidence) -> Evidence:
        """The same as a look: nothing costs anything here."""
        return self.look(base, ask=False)

    def look(self, base: Evidence, *, ask: bool = True, sources: Mapping[str, str] | None = None) -> Evidence:
        """`base` with the ranks filled in."""
        script, taken_s = self._script, time.monotonic()
        shift_s = taken_s - script.clock.now_s()
        views = tuple(one.view(shift_s, script.seats[one.rank], script.generation, ask=ask) for one in script.ranks)
        texts = cells_of(views, sources) if sources else {}
        return dataclasses.replace(base, ranks=views, taken_s=taken_s, sources=texts)
