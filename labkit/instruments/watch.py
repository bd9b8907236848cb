"""The world while it runs, for a picture of it: every rank's card, at a cost that a running collective doesn't feel.

A whole look (`world.status()`) asks every rank's control thread and reads its whole beacon. Here no rank is
asked: of the beacon only the header and the newest calls are read, a few hundred bytes, ten times a second.

The timeline of the last cells comes from the beacons too.
"""

from __future__ import annotations

from dataclasses import replace

from ..driver.cards import Seen, describe, make_card
from ..driver.core import Seat, WorldCore, instrument
from ..processes import memory_bytes, state_of_pid
from ..ring import RingReader
from ..timeline import Timeline, make_timeline
from ..vocabulary import ProcessState, RankState
from ..wire import RankCard, RankView, WorldStatus

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
            cards = tuple(RankCard(seat.rank, seat.pid, seat.device, world.backend, RankState.ENDED) for seat in world.seats)
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
        dead = seat.exit_code is not None
        process = ProcessState.DEAD if dead else state_of_pid(seat.pid)
        path = self.world.folder / f"rank-{seat.rank}.beacon"
        ring = None if dead else self._readers.setdefault(seat.rank, RingReader(path)).newest(NEWEST)
        if ring is not None and ring.pid != seat.pid:
            ring = None  # its predecessor's
        view = RankView(seat.rank, seat.pid, process, seat.exit_code)
        if ring is not None:
            view = replace(view, activity=ring.activity, cell=ring.cell, calls=ring.calls)
        seen = describe(view, broken=bool(self.world.broken), raised=self.world.raised(seat.rank))
        if seen.state == RankState.IDLE:
            last = f"last call: {ring.calls[-1]}" if ring and ring.calls else ""
            seen = Seen(RankState.IDLE, "", last) if ring else Seen(RankState.STARTING)
        memory = self._memory_of(seat.pid)
        return RankCard(seat.rank, seat.pid, seat.device, self.world.backend, *seen, memory_bytes=memory)

    def _memory_of(self, pid: int) -> int:
        if pid not in self._memory:  # once: it costs more than all the rest
            self._memory[pid] = memory_bytes(pid)
        return self._memory[pid]


@instrument
def watch(world: WorldCore) -> Live:
    """The rank cards, moving while cells run; where nobody watches, as they are now."""
    world.look(ask=False)
    return Live(world)


@instrument
def timeline(world: WorldCore, cells: int = 1) -> Timeline:
    """Who was in which call, when: the last cell, or the last `cells`."""
    return make_timeline(world.look(ask=False), cells)
