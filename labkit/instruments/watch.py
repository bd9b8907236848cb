"""The world while it runs, for a picture of it: every rank's card, at a cost that a running collective doesn't feel.

A whole look (`world.status()`) asks every rank's control thread and reads its whole beacon. Here no rank is
asked: of the beacon only the header and the newest calls are read, a few hundred bytes, ten times a second.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ..driver.cards import make_card
from ..driver.core import Seat, WorldCore, instrument
from ..processes import memory_bytes, state_of_pid
from ..ring import RingReader, RingState
from ..wire import Call, RankCard, WorldStatus

NEWEST = 4  # calls looked at, so that one that waits is found behind asynchronous ones


class Live:
    """What `world.watch()` gives: in a watched notebook rank cards that move, elsewhere the cards as they are now."""

    def __init__(self, world: WorldCore) -> None:
        self.world = world
        self._readers: dict[int, RingReader] = {}
        self._memory: dict[int, int] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Live) and other.world is self.world

    def __hash__(self) -> int:
        return hash(id(self.world))

    def __repr__(self) -> str:
        return f"Live({self.world.world_size} ranks)"

    @property
    def over(self) -> bool:
        """The world is stopped: what `look` gives from now on is its last word."""
        return self.world.stopped

    def look(self) -> WorldStatus:
        """The rank cards, without asking any rank."""
        world = self.world
        if self.over:
            cards = tuple(RankCard(seat.rank, seat.pid, seat.device, world.backend, "ended") for seat in world.seats)
        elif world.folder.is_dir():
            cards = tuple(self._card(seat) for seat in world.seats)
        else:  # a world without beacons
            cards = tuple(make_card(view, world.seats[view.rank], world.backend) for view in world.look(ask=False).ranks)
        note = f"the groups are broken {world.broken}; world.recover() forms new ones" if world.broken and not self.over else ""
        return WorldStatus(
            world.world_size, world.backend, world.mode, world.generation, world.launcher, cards, world.started_in_s,
            "the world is stopped" if self.over else note,
        )  # fmt: skip

    def _card(self, seat: Seat) -> RankCard:
        card = RankCard(seat.rank, seat.pid, seat.device, self.world.backend, "", memory_bytes=self._memory_of(seat.pid))
        process = "dead" if seat.exit_code is not None else state_of_pid(seat.pid)
        if process == "dead":
            return replace(card, state="dead", detail="" if seat.exit_code is None else f"exit code {seat.exit_code}")
        path = self.world.folder / f"rank-{seat.rank}.beacon"
        seen = self._readers.setdefault(seat.rank, RingReader(path)).newest(NEWEST)
        if seen is not None and seen.pid != seat.pid:
            seen = None  # its predecessor's
        state, detail = describe(seen, broken=bool(self.world.broken))
        if process == "stopped":
            return replace(card, state="stopped", detail=f"SIGSTOP, {state}" if state != "idle" else "SIGSTOP")
        return replace(card, state=state, detail=detail)

    def _memory_of(self, pid: int) -> int:
        if pid not in self._memory:  # once: it costs more than all the rest
            self._memory[pid] = memory_bytes(pid)
        return self._memory[pid]


def describe(seen: RingState | None, *, broken: bool = False) -> tuple[str, str]:
    """A rank's state as a short phrase, and where."""
    if seen is None:
        return "starting", ""
    call = _newest_that_matters(seen.calls)
    if call is None:
        return (f"running cell {seen.cell}" if seen.activity == "cell" else "idle"), ""
    where = str(call.site) if call.site is not None else ""
    if _waits(call) and seen.activity != "idle":
        waited = f"for {max(0.0, time.monotonic() - call.issued_s):.1f} s"
        return f"{'stuck in' if broken else 'in'} {call}", f"{where}, {waited}" if where else waited
    if seen.activity == "cell":
        in_this_cell = call.site is not None and call.site.cell == seen.cell
        return f"running cell {seen.cell}", f"past {call}, line {call.site.line}" if in_this_cell and call.site else ""
    return "idle", f"last call: {call}"


def _newest_that_matters(calls: tuple[Call, ...]) -> Call | None:
    """The call a rank waits in, else its last one."""
    waiting = [call for call in calls if _waits(call)]
    return waiting[-1] if waiting else calls[-1] if calls else None


def _waits(call: Call) -> bool:
    return call.state == "issued" and not call.async_op


@instrument
def watch(world: WorldCore) -> Live:
    """The rank cards, moving while cells run; where nobody watches, as they are now."""
    world.look(ask=False)
    return Live(world)
