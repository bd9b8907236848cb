"""A rank's part of a schedule with everything overlapped that may be: what the live ring's speed comes from.

Messages are cut into pieces, the same ones on both sides. A piece is sent on as soon as it has been added, while the
rest of its message still comes in; receives are posted ahead; what is only copied is received in place. All this keeps
the order of the moves: a send carries what earlier moves brought and nothing that came later, and nothing is
overwritten before it has gone out. No wait is entered that the moves one by one would not enter as well, so what runs
to its end step by step runs to its end here.

What limits it is CPU time. A ring of 16 MiB on four ranks takes 11 ms of it in each rank, gloo's own all-reduce 10 to
11 ms; more than half is gloo's thread, which copies through loopback TCP, the rest adds here. On fewer cores than ranks
every piece also waits for its turn twice, when gloo's thread hands it over and when this one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .channel import P2PChannel
from .moves import COMBINE, Memory, Tally, line_of, step_by_step

if TYPE_CHECKING:
    from ..schedule.program import Move
    from ..wire import Call

PIECE_BYTES = 2 << 20  # each costs two hand-overs between threads: smaller ones overlap more and are slower on busy cores
AHEAD = 8  # receives posted beyond the one that is waited for


@dataclass
class Out:
    """A piece to send, once `needs` pieces have come in."""

    move: int
    start: int
    stop: int
    peer: int
    send: str
    needs: int


@dataclass
class In:
    """A piece to receive. It may be applied once `sends` pieces have gone out, and overlaps earlier ones up to `after`.

    `in_place`: received where it belongs, for which all the sends must be of earlier moves than `move`.
    """

    move: int
    start: int
    stop: int
    peer: int
    reduce: bool
    handed: bool
    sends: int
    sends_move: int
    after: int
    in_place: bool


def plan(moves: list[Move], piece_elements: int) -> tuple[list[Out], list[In]]:
    """A program's pieces in their order, with what each has to wait for."""
    outs: list[Out] = []
    ins: list[In] = []
    for number, move in enumerate(moves):
        before = len(ins)
        for start, stop in _cut(*move.out, piece_elements):
            needs = 0 if move.send == "own" else _last(ins[:before], start, stop)
            outs.append(Out(number, start, stop, move.to_rank, move.send, needs))
        for start, stop in _cut(*move.into, piece_elements):
            sends = _last(outs, start, stop, but="own")
            sends_move = outs[sends - 1].move if sends else -1
            handed = move.send == "handed"
            in_place = not move.reduce and not handed and sends_move < number
            after = _last(ins[:before], start, stop)
            ins.append(In(number, start, stop, move.from_rank, move.reduce, handed, sends, sends_move, after, in_place))
    return outs, ins


def _cut(start: int, stop: int, most: int) -> Iterator[tuple[int, int]]:
    for low in range(start, stop, most):
        yield low, min(low + most, stop)


def _last(pieces: list[Any], start: int, stop: int, but: str = "") -> int:
    """How many pieces there are up to the last one that touches [start, stop)."""
    for index in range(len(pieces), 0, -1):
        piece = pieces[index - 1]
        if piece.start < stop and start < piece.stop and (not but or piece.send != but):
            return index
    return 0


class Overlapped:
    """One program, planned once and run as often as wanted."""

    def __init__(self, channel: P2PChannel, memory: Memory, moves: list[Move], op: str, piece_bytes: int = PIECE_BYTES) -> None:
        self._channel, self._memory, self._op = channel, memory, op
        self._moves = moves
        self._piece_elements = max(1, piece_bytes // memory.data.element_size())
        self._outs, self._ins = plan(moves, self._piece_elements)
        self._free: list[torch.Tensor] = []

    def run(self) -> Tally:
        """Every piece sent and received, every send through."""
        self._memory.make_copy()
        self._sent: list[Any] = []
        self._through = 0  # sends that were waited for
        self._posted: list[tuple[Any, torch.Tensor]] = []
        try:
            self._run()
        except BaseException:
            self._channel.keep(work for work in (*self._sent, *(work for work, _ in self._posted)) if work is not None)
            raise
        return self._tally()

    def _run(self) -> None:
        with ExitStack() as note:  # one line a move in the beacon: whose pieces this rank waits for
            for number, piece in enumerate(self._ins):
                self._post_sends(number)
                self._post_receives(number, piece.move)
                if number == 0 or self._ins[number - 1].move != piece.move:
                    note.close()
                    note.enter_context(self._channel.noted(self._line(piece.move)))
                self._take(number, piece)
        self._post_sends(len(self._ins))
        if self._outs:
            with self._channel.noted(self._line(self._outs[-1].move, sends=True)):
                self._wait_sends(len(self._outs))

    def _post_sends(self, done: int) -> None:
        while len(self._sent) < len(self._outs) and self._outs[len(self._sent)].needs <= done:
            out = self._outs[len(self._sent)]
            self._sent.append(self._channel.send(self._memory.source(out.send)[out.start : out.stop], out.peer))

    def _post_receives(self, done: int, move: int) -> None:
        """In order, since a peer's pieces meet the receives in order; stops at one that has to wait."""
        while len(self._posted) < min(len(self._ins), done + AHEAD):
            piece = self._ins[len(self._posted)]
            if piece.in_place:
                if piece.after > done or piece.sends_move >= move:
                    return
                self._wait_sends(piece.sends)  # of moves that are over: the moves one by one wait for them too
                target = self._memory.data[piece.start : piece.stop]
            else:
                target = self._spare(piece.stop - piece.start)
            self._posted.append((self._channel.recv(target, piece.peer), target))

    def _take(self, number: int, piece: In) -> None:
        work, came = self._posted[number]
        work.wait()
        if piece.in_place:
            return
        self._wait_sends(piece.sends)
        combine = COMBINE[self._op] if piece.reduce else torch.Tensor.copy_
        self._memory.put(slice(piece.start, piece.stop), came, combine, handed=piece.handed)
        self._posted[number] = (None, came)
        self._give(came)

    def _wait_sends(self, count: int) -> None:
        while self._through < count:
            self._sent[self._through].wait()
            self._through += 1

    def _spare(self, size: int) -> torch.Tensor:
        base = self._free.pop() if self._free else self._memory.data.new_empty(self._piece_elements)
        return base[:size]

    def _give(self, tensor: torch.Tensor) -> None:
        base = tensor._base
        self._free.append(base if base is not None else tensor)

    def _line(self, move: int, *, sends: bool = False) -> Call:
        return line_of(self._channel, self._memory, move + 1, self._moves[move], self._op, sends=sends)

    def _tally(self) -> Tally:
        tally, itemsize = Tally(), self._memory.data.element_size()
        for move in self._moves:
            tally.message(
                move.num_out * itemsize if move.kind != "recv" else None,
                move.num_into * itemsize if move.kind != "send" else None,
            )
        return tally


def runner(channel: P2PChannel, memory: Memory, moves: list[Move], op: str) -> Callable[[], Tally]:
    """The quickest way to run a program here: NCCL cuts and overlaps by itself, and orders its work by a stream."""
    if channel.queued:
        return step_by_step(channel, memory, moves, op, timed=False)
    return Overlapped(channel, memory, moves, op).run
