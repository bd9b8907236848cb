"""The beacon's file: a fixed-size header and a ring of calls, written by one rank, read by anyone.

Serves one need: to know what a rank is doing while it can't answer - stuck in a wait, stopped, holding
the interpreter lock, or dead. So it is a memory-mapped file (it outlives its writer), every write is a
few struct packs (microseconds), and a reader takes what is there without a lock: each slot carries its
own index before and after its body, and a slot whose two do not agree is being written and is left out.
Strings are interned in a table behind the ring, since op names and call sites repeat.

A reader trusts nothing: whatever the bytes are, it gives what can be true and leaves out the rest.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .wire import Call, CallSite

SLOTS = 256
_HEADER = struct.Struct("<8sIIIIiddIIII")  # magic pid rank generation cell activity cell_s beat_s next index fired strings_end
# state seq op group members shape dtype root reduce bytes async file line function cell algorithm issued returned
# step move request_id planned chain tag splits asked part index
_BODY = struct.Struct("<IIIIIIIiIQIIIIIIddIIIIIiIIIQ")
_RETURNED_AT = 8 + struct.calcsize("<IIIIIIIiIQIIIIIId")
_INDEX, _STATE, _TIME, _BEAT = (struct.Struct(form) for form in ("<Q", "<I", "<d", "<dI"))
_BEAT_AT = struct.calcsize("<8sIIIIid")
_MAGIC = b"LABKIT4\0"
_RING_AT = 128
_SLOT_BYTES = 160
_STRINGS_AT = _RING_AT + SLOTS * _SLOT_BYTES
_STRINGS_BYTES = 96 * 1024
FILE_BYTES = _STRINGS_AT + _STRINGS_BYTES
_STATES = ("issued", "done", "failed", "refused", "invalid", "begun")
ACTIVITIES = ("idle", "cell")


class RingWriter:
    """Writes a rank's beacon file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rank-0.beacon"
    >>> writer = RingWriter(path, rank=0, pid=1)
    >>> slot = writer.issue(Call(1, 1, "all_reduce", shape=(8,)))
    >>> [str(call) for call in read_ring(path).calls]
    ['all_reduce #1']
    """

    def __init__(self, path: Path, rank: int, pid: int) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(fd, 0, FILE_BYTES)  # on a full disk this fails, where a hole would be a bus error later
            self._map = mmap.mmap(fd, FILE_BYTES)
        finally:
            os.close(fd)
        self._rank, self._pid = rank, pid
        self._strings: dict[str, int] = {}
        self._tuples: dict[tuple[str, tuple[int, ...]], int] = {}
        self._chains: dict[int, tuple[tuple[CallSite, ...], int]] = {}
        self._end = _STRINGS_AT + 2  # id 0 is the empty string
        self.generation = self.cell = self.activity = self._count = self.fired = 0
        self.cell_started_s = self.beat_s = 0.0
        self._header()

    def _header(self) -> None:
        _HEADER.pack_into(
            self._map, 0, _MAGIC, self._pid, self._rank, self.generation, self.cell, self.activity,
            self.cell_started_s, self.beat_s, self._count, 0, self.fired, self._end,
        )  # fmt: skip

    def state(self, *, cell: int, activity: str, now_s: float, started_s: float, generation: int) -> None:
        """Say what the rank is at: the running cell and since when."""
        self.cell, self.activity, self.generation = cell, ACTIVITIES.index(activity), generation
        self.cell_started_s, self.beat_s = started_s, now_s
        self._header()

    def fault_fired(self) -> None:
        """Count a fault that has just fired; readable even if it ends this process."""
        self.fired += 1
        self._header()

    def issue(self, call: Call) -> int:
        """Write a call that is about to be issued; returns its slot, for `finish`."""
        slot = self._count % SLOTS
        self._count += 1
        self._write(slot, call)
        self.beat_s = call.issued_s
        _BEAT.pack_into(self._map, _BEAT_AT, call.issued_s, self._count)
        return slot

    def issue_begun(self, slot: int, call: Call) -> None:
        """A call whose line said "begun" is issued now, as it has become."""
        self._write(slot, call)
        self.beat_s = call.issued_s
        _TIME.pack_into(self._map, _BEAT_AT, call.issued_s)

    def clear(self) -> None:
        """Forget all calls: a new generation counts from 1 again."""
        for slot in range(SLOTS):
            _INDEX.pack_into(self._map, _RING_AT + slot * _SLOT_BYTES, 0)
        self._count = 0
        self._header()

    def finish(self, slot: int, index: int, state: str, now_s: float) -> None:
        """Mark a call as done, failed, refused or invalid, if its slot has not been reused."""
        at = _RING_AT + slot * _SLOT_BYTES
        if _INDEX.unpack_from(self._map, at)[0] != index:
            return
        _STATE.pack_into(self._map, at + 8, _STATES.index(state))
        _TIME.pack_into(self._map, at + _RETURNED_AT, now_s)
        self.beat_s = now_s
        _TIME.pack_into(self._map, _BEAT_AT, now_s)

    def _write(self, slot: int, call: Call) -> None:
        site = call.site
        text = self._intern_tuple("x", call.shape)
        members = self._intern_tuple(",", call.group_ranks)
        at = _RING_AT + slot * _SLOT_BYTES
        _INDEX.pack_into(self._map, at, 0)
        _BODY.pack_into(
            self._map, at + 8, _STATES.index(call.state), call.seq, self._intern(call.op),
            self._intern(call.group), members, text, self._intern(call.dtype), call.root,
            self._intern(call.reduce_op), call.num_bytes, int(call.async_op),
            self._intern(site.file) if site else 0, site.line if site else 0,
            self._intern(site.function) if site else 0, call.cell, self._intern(call.algorithm), call.issued_s,
            call.returned_s, call.step, call.move, call.request_id, self._intern(call.planned),
            self._intern_chain(call.chain), call.tag, self._intern_tuple(";", call.splits),
            self._intern(call.asked), self._intern(call.part), call.index,
        )  # fmt: skip
        _INDEX.pack_into(self._map, at, call.index)

    def _intern_tuple(self, between: str, numbers: tuple[int, ...]) -> int:
        found = self._tuples.get((between, numbers))
        if found is None:
            shown = numbers[:6] if between == "x" else numbers
            found = self._intern(between.join(map(str, shown)))
            if len(self._tuples) < 4096:
                self._tuples[between, numbers] = found
        return found

    def _intern_chain(self, chain: tuple[CallSite, ...]) -> int:
        """Frame by frame, each with the id of the one outside of it: chains that begin alike share their frames."""
        if not chain:
            return 0
        known = self._chains.get(id(chain))  # by identity: the same line gives the same tuple, and hashing one is dear
        if known is not None and known[0] is chain:
            return known[1]
        ident = 0
        for site in chain:
            ident = self._intern(f"{ident} {self._intern(site.file)} {site.line} {self._intern(site.function)}")
            if not ident:
                return 0
        if len(self._chains) < 4096:
            self._chains[id(chain)] = (chain, ident)
        return ident

    def _intern(self, text: str) -> int:
        if not text:
            return 0
        found = self._strings.get(text)
        if found is not None:
            return found
        data = text.encode()[:4000]
        if self._end + 2 + len(data) > FILE_BYTES:
            return self._strings.setdefault(text, 0)  # table full: the name is lost, the call is not
        at = self._end
        struct.pack_into("<H", self._map, at, len(data))
        self._map[at + 2 : at + 2 + len(data)] = data
        self._end = at + 2 + len(data)
        self._strings[text] = at - _STRINGS_AT
        return self._strings[text]

    def close(self) -> None:
        """Unmap; the file stays for readers."""
        self._map.close()


@dataclass(frozen=True)
class RingState:
    """What a beacon file says at one moment; `calls` are sorted, oldest first."""

    pid: int
    rank: int
    generation: int
    cell: int
    activity: str
    cell_started_s: float
    beat_s: float
    count: int
    fired: int
    calls: tuple[Call, ...] = ()


def read_ring(path: Path) -> RingState | None:
    """The whole beacon of a rank; None if there is none yet, or if its header is damaged."""
    try:
        data, later = path.read_bytes(), path.read_bytes()
    except OSError:
        return None
    if len(data) < FILE_BYTES or len(later) < FILE_BYTES:
        return None
    # the writer clears a slot's index before it touches the body: a body read while it was being written
    # belongs to an index that a later look no longer finds
    indices, later_indices = (
        [_INDEX.unpack_from(those, _RING_AT + slot * _SLOT_BYTES)[0] for slot in range(SLOTS)] for those in (data, later)
    )
    steady = [slot for slot in range(SLOTS) if indices[slot] == later_indices[slot] != 0]
    return _read_state(lambda at, size: data[at : at + size], lambda count: steady, {})


class RingReader:
    """Reads the newest calls of one rank's beacon, a few hundred bytes at a time.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rank-0.beacon"
    >>> slot = RingWriter(path, rank=0, pid=1).issue(Call(1, 1, "broadcast"))
    >>> [str(call) for call in RingReader(path).newest(4).calls]
    ['broadcast #1']
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: _Texts = {}
        self._texts_of = 0

    def newest(self, limit: int) -> RingState | None:
        """The header and at most `limit` calls; None if there is no beacon, or if its header is damaged."""
        try:
            fd = os.open(self._path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return self._newest(lambda at, size: os.pread(fd, size, at), limit)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _newest(self, fetch: _Fetch, limit: int) -> RingState | None:
        header = _read_header(fetch)
        if header is None:
            return None
        if header.pid != self._texts_of:  # texts stay where they are for as long as their process lives
            self._texts, self._texts_of = {}, header.pid
        return _read_state(fetch, lambda count: [(count - back) % SLOTS for back in range(1, min(count, limit) + 1)], self._texts)


def read_beat(path: Path) -> float:
    """When the rank last wrote its beacon, in monotonic seconds; 0 if it never did. A read of 64 bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(_HEADER.size)
    except OSError:
        return 0.0
    header = _read_header(lambda at, size: data[at : at + size])
    return header.beat_s if header is not None else 0.0


# ---- the one decoder
_Fetch = Callable[[int, int], bytes]  # (place, number of bytes) -> what is there; fewer bytes at the end of the file
_Texts = dict[int, Any]  # by place; and by place with a minus the chain that ends there: calls of one way share one tuple
_HIGHEST = 2**63  # no size and no rank is as large


def _read_state(fetch: _Fetch, choose: Callable[[int], list[int]], texts: _Texts) -> RingState | None:
    """The header and the calls in the slots that `choose` gives for the number of calls so far."""
    header = _read_header(fetch)
    if header is None:
        return None
    calls = [call for slot in choose(header.count) if (call := _read_call(fetch, slot, texts)) is not None]
    return replace(header, calls=tuple(sorted(calls, key=lambda call: call.index)))


def _read_header(fetch: _Fetch) -> RingState | None:
    """The header without calls; None if it is not one that a writer has written."""
    data = fetch(0, _HEADER.size)
    if len(data) != _HEADER.size:
        return None
    (magic, pid, rank, generation, cell, activity, cell_s, beat_s, count, _, fired, _) = _HEADER.unpack(data)
    if magic != _MAGIC or not 0 <= activity < len(ACTIVITIES) or not (math.isfinite(cell_s) and math.isfinite(beat_s)):
        return None
    return RingState(pid, rank, generation, cell, ACTIVITIES[activity], cell_s, beat_s, count, fired)


def _read_call(fetch: _Fetch, slot: int, texts: _Texts) -> Call | None:
    """The call in a slot; None if the slot is empty, is being written, or is damaged."""
    data = fetch(_RING_AT + slot * _SLOT_BYTES, _SLOT_BYTES)
    if len(data) != _SLOT_BYTES:
        return None
    (state, seq, op, group, members, shape, dtype, root, reduce_op, num_bytes, async_op, file, line, function, cell, algorithm,
     issued_s, returned_s, step, move, request_id, planned, chain, tag, splits, asked, part, index,
    ) = _BODY.unpack_from(data, 8)  # fmt: skip
    (first,) = _INDEX.unpack_from(data)
    if index == 0 or first != index or state >= len(_STATES) or not (math.isfinite(issued_s) and math.isfinite(returned_s)):
        return None

    def text(ident: int) -> str:
        known = texts.get(ident)
        if known is None:
            known = texts[ident] = _read_text(fetch, ident)
        return known

    try:
        return Call(
            index=index, seq=seq, op=text(op), group=text(group), group_ranks=_numbers(text(members), ","),
            shape=_numbers(text(shape), "x"), dtype=text(dtype), num_bytes=num_bytes, reduce_op=text(reduce_op), root=root,
            async_op=bool(async_op), site=CallSite(text(file), line, text(function)) if file else None, cell=cell,
            state=_STATES[state], issued_s=issued_s, returned_s=returned_s, algorithm=text(algorithm), step=step, move=move,
            request_id=request_id, planned=text(planned), chain=_read_chain(chain, text, texts), tag=tag,
            splits=_numbers(text(splits), ";"), asked=text(asked), part=text(part),
        )  # fmt: skip
    except ValueError:
        return None


def _read_text(fetch: _Fetch, ident: int) -> str:
    """A text of the table; ValueError if there can be none at that place."""
    if not ident:
        return ""
    size = int.from_bytes(fetch(_STRINGS_AT + ident, 2), "little")
    data = fetch(_STRINGS_AT + ident + 2, size)
    if not size or len(data) != size:
        raise ValueError(f"no text at {ident}")
    return data.decode(errors="replace")


_DEEPEST = 64  # frames of a chain; a damaged one could lead in a circle


def _read_chain(ident: int, text: Callable[[int], str], texts: _Texts, left: int = _DEEPEST) -> tuple[CallSite, ...]:
    """The frames that end at `ident`, outermost first; ValueError if they are damaged."""
    if ident and -ident not in texts:
        outer, file, line, function = map(int, text(ident).split(" "))
        if not left or not 0 <= outer < ident or not 0 <= line < _HIGHEST:
            raise ValueError("a chain in a circle")
        texts[-ident] = (*_read_chain(outer, text, texts, left - 1), CallSite(text(file), line, text(function)))
    return texts[-ident] if ident else ()


def _numbers(text: str, between: str) -> tuple[int, ...]:
    """The numbers of a shape ("2x3") or of a group ("0,1"); ValueError for anything else."""
    numbers = tuple(int(number) for number in text.split(between)) if text else ()
    if not all(0 <= number < _HIGHEST for number in numbers):
        raise ValueError(f"{text} is out of range")
    return numbers
