"""The world while it runs, for a picture of it: every rank's card, at a cost that a running collective doesn't feel.

A whole look (`world.status()`) asks every rank's control thread and reads its whole beacon. Here no rank is
asked: of the beacon only the header and the newest calls are read, a few hundred bytes, ten times a second.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ..driver import host
from ..driver.cards import make_card
from ..driver.core import Seat, WorldCore, instrument
from ..ring import (
    _BODY,
    _HEADER,
    _MAGIC,
    _RING_AT,
    _SLOT_BYTES,
    _STATES,
    _STRINGS_AT,
    ACTIVITIES,
    SLOTS,
)
from ..wire import CallSite, RankCard, WorldStatus

NEWEST = 4  # calls looked at, so that one that waits is found behind asynchronous ones
_TEXT_BYTES = 256


@dataclass(frozen=True)
class Newest:
    """The newest call that matters: the one a rank waits in, else its last one."""

    op: str
    seq: int
    waits: bool
    issued_s: float
    site: CallSite | None

    def __str__(self) -> str:
        return f"{self.op} #{self.seq}" if self.seq else self.op


@dataclass(frozen=True)
class Glance:
    """What the start of a beacon says."""

    pid: int
    cell: int
    activity: str
    call: Newest | None


class Reader:
    """Reads one rank's beacon in a few small pieces; keeps its texts, which never change within a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: dict[tuple[int, int], str] = {}

    def glance(self) -> Glance | None:
        """None if there is no beacon, or it is just being made."""
        try:
            fd = os.open(self._path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return self._read(fd)
        except (OSError, struct.error, IndexError):
            return None
        finally:
            os.close(fd)

    def _read(self, fd: int) -> Glance | None:
        (magic, pid, _, _, cell, activity, _, _, count, _, _, _) = _HEADER.unpack(os.pread(fd, _HEADER.size, 0))
        if magic != _MAGIC:
            return None
        last: Newest | None = None
        for back in range(1, min(count, NEWEST) + 1):
            call = self._call(fd, pid, (count - back) % SLOTS)
            if call is not None and call.waits:
                return Glance(pid, cell, ACTIVITIES[activity], call)
            last = last or call
        return Glance(pid, cell, ACTIVITIES[activity], last)

    def _call(self, fd: int, pid: int, slot: int) -> Newest | None:
        data = os.pread(fd, _SLOT_BYTES, _RING_AT + slot * _SLOT_BYTES)
        (index,) = struct.unpack_from("<Q", data)
        body = _BODY.unpack_from(data, 8)
        state, seq, op, is_async, file, line, function, issued_s, again = (body[i] for i in (0, 1, 2, 10, 11, 12, 13, 16, -1))
        if index == 0 or again != index or state >= len(_STATES):
            return None  # it is being written
        site = CallSite(self._text(fd, pid, file), line, self._text(fd, pid, function)) if file else None
        return Newest(self._text(fd, pid, op), seq, _STATES[state] == "issued" and not is_async, issued_s, site)

    def _text(self, fd: int, pid: int, ident: int) -> str:
        if not ident:
            return ""
        known = self._texts.get((pid, ident))
        if known is None:
            data = os.pread(fd, _TEXT_BYTES, _STRINGS_AT + ident)
            (size,) = struct.unpack_from("<H", data)
            known = self._texts[(pid, ident)] = data[2 : 2 + size].decode(errors="replace")
        return known


class Live:
    """What `world.watch()` gives: in a watched notebook rank cards that move, elsewhere the cards as they are now."""

    def __init__(self, world: WorldCore) -> None:
        self.world = world
        self._readers: dict[int, Reader] = {}
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
        process = "dead" if seat.exit_code is not None else host.process_state(seat.pid)
        if process == "dead":
            return replace(card, state="dead", detail="" if seat.exit_code is None else f"exit code {seat.exit_code}")
        path = self.world.folder / f"rank-{seat.rank}.beacon"
        seen = self._readers.setdefault(seat.rank, Reader(path)).glance()
        if seen is not None and seen.pid != seat.pid:
            seen = None  # its predecessor's
        state, detail = describe(seen, broken=bool(self.world.broken))
        if process == "stopped":
            return replace(card, state="stopped", detail=f"SIGSTOP, {state}" if state != "idle" else "SIGSTOP")
        return replace(card, state=state, detail=detail)

    def _memory_of(self, pid: int) -> int:
        if pid not in self._memory:  # once: it costs more than all the rest
            self._memory[pid] = host.memory_bytes(pid)
        return self._memory[pid]


def describe(seen: Glance | None, *, broken: bool = False) -> tuple[str, str]:
    """A rank's state as a short phrase, and where."""
    if seen is None:
        return "starting", ""
    call = seen.call
    where = str(call.site) if call is not None and call.site is not None else ""
    if call is not None and call.waits and seen.activity != "idle":
        waited = f"for {max(0.0, time.monotonic() - call.issued_s):.1f} s"
        return f"{'stuck in' if broken else 'in'} {call}", f"{where}, {waited}" if where else waited
    if seen.activity == "cell":
        mine = call is not None and call.site is not None and call.site.cell == seen.cell
        return f"running cell {seen.cell}", f"past {call}, line {call.site.line}" if mine and call and call.site else ""
    return "idle", f"last call: {call}" if call is not None else ""


@instrument
def watch(world: WorldCore) -> Live:
    """The rank cards, moving while cells run; where nobody watches, as they are now."""
    world.look(ask=False)
    return Live(world)
