"""What each rank does, one move after another: the form of a schedule that ranks execute.

A move is a send, a receive, or both at once; the next one starts when it is complete. A step in which a rank
has several partners is cut into rounds, the same ones on every rank, in which each rank sends at most once and
receives at most once. So the programs run to their end even if a send waits for its receive (rendezvous).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import UsageError
from ..plain import record
from .collective import Layout, Ranges, collective
from .model import Schedule, Step, Transfer

Span = tuple[int, int]


@record
class Move:
    """One move of a rank: `kind` is "send", "recv" or "sendrecv".

    It sends the span `out` to `to_rank`, and receives the span `into` from `from_rank` into a buffer of their own; when
    both are complete, it adds (`reduce`) or copies what came. A span is [start, stop): of chunks in
    `Program.chunk_moves`, of elements of the flat tensor in what `Program.moves` gives.
    `send` is "held", "own" or "handed": see `model.SENDS`.
    """

    step: int
    kind: str
    to_rank: int = -1
    out: tuple[int, int] = (0, 0)
    from_rank: int = -1
    into: tuple[int, int] = (0, 0)
    reduce: bool = False
    send: str = "held"

    @property
    def num_out(self) -> int:
        return self.out[1] - self.out[0]

    @property
    def num_into(self) -> int:
        return self.into[1] - self.into[0]


def _make_move(step: int, send: str, out: tuple[int, Span] | None, into: tuple[int, Span, bool] | None) -> Move | None:
    """The move that sends `out` (to whom, what) and receives `into` (from whom, what, adds); None if it does neither."""
    if out is None and into is None:
        return None
    kind = "sendrecv" if out and into else "send" if out else "recv"
    to_rank, sent = out or (-1, (0, 0))
    from_rank, received, reduce = into or (-1, (0, 0), False)
    return Move(step, kind, to_rank, sent, from_rank, received, reduce, send)


@record
class Program:
    """All that one rank needs to take part: plain, so that it can travel.

    The rank lays its tensor into a buffer of `buffer_elements(n)` at `elements("start", n)`, does `moves(n)`, and
    finds the result at `elements("end", n)`. If it `needs_copy`, it also keeps a copy of that buffer as it was at the
    start: moves with send "own" or "handed" send from the copy, and what a "handed" move receives also goes there.
    """

    name: str
    collective: str
    rank: int
    world_size: int
    num_chunks: int
    chunk_moves: tuple[Move, ...]
    start: Ranges
    end: Ranges
    needs_copy: bool = False
    root: int = 0

    @property
    def reduces(self) -> bool:
        """The collective adds; one that only moves numbers has no op, and nothing to average."""
        return collective(self.collective).reduces

    def layout(self, num_elements: int) -> Layout:
        """Where the chunks lie, for n elements."""
        return collective(self.collective).layout(num_elements, self.world_size, self.num_chunks)

    def buffer_elements(self, num_elements: int) -> int:
        """The length of the buffer for n elements: n, but for all-to-all the whole matrix."""
        layout = self.layout(num_elements)
        return layout.num_elements * layout.num_rows

    def elements(self, where: str, num_elements: int) -> np.ndarray:
        """Where in the buffer the rank's tensor lies at the "start" or the "end"."""
        return self.layout(num_elements).elements(self.start if where == "start" else self.end)

    def moves(self, num_elements: int) -> list[Move]:
        """The moves for a tensor of n elements. Empty chunks are left out, on both sides alike.

        >>> from .algorithm import ALGORITHMS
        >>> [each.kind for each in programs(ALGORITHMS["ring"].schedule(3))[0].moves(1)]
        ['recv', 'send']
        """
        layout = self.layout(num_elements)
        return [move for each in self.chunk_moves if (move := _in_elements(each, layout)) is not None]


def programs(schedule: Schedule) -> tuple[Program, ...]:
    """The program of every rank; UsageError if a rank would overwrite what it has still to send."""
    moves: list[list[Move]] = [[] for _ in range(schedule.world_size)]
    needs_copy = False
    for index, step in enumerate(schedule.steps()):
        needs_copy = needs_copy or step.send != "held"
        rounds = list(split_rounds(step))
        if len(rounds) > 1:
            _check_order(index, rounds, step.send)
        for transfers in rounds:
            _append(moves, index, transfers, step.send)
    return tuple(_program(schedule, rank, moves[rank], needs_copy) for rank in range(schedule.world_size))


def _program(schedule: Schedule, rank: int, moves: list[Move], needs_copy: bool) -> Program:
    return Program(
        name=schedule.name,
        collective=schedule.collective,
        rank=rank,
        world_size=schedule.world_size,
        num_chunks=schedule.num_chunks,
        chunk_moves=tuple(moves),
        start=schedule.start(rank),
        end=schedule.end(rank),
        needs_copy=needs_copy,
        root=schedule.root,
    )


def split_rounds(step: Step) -> Iterator[list[Transfer]]:
    """A step's transfers in rounds in which no rank sends twice or receives twice, the earliest round first."""
    rounds: list[list[Transfer]] = []
    sends: dict[int, set[int]] = {}
    receives: dict[int, set[int]] = {}
    for transfer in step.transfers():
        busy = sends.setdefault(transfer.src, set()) | receives.setdefault(transfer.dst, set())
        free = next(number for number in range(len(busy) + 1) if number not in busy)
        sends[transfer.src].add(free)
        receives[transfer.dst].add(free)
        while len(rounds) <= free:
            rounds.append([])
        rounds[free].append(transfer)
    yield from rounds


def _check_order(index: int, rounds: list[list[Transfer]], send: str) -> None:
    """A chunk that a rank sends and receives in one step must not come in before it has gone out."""
    if send == "own":  # the original is never overwritten
        return
    came: dict[int, list[Transfer]] = {}
    for transfers in rounds:
        for out in transfers:
            if any(max(out.chunk_lo, each.chunk_lo) < min(out.chunk_hi, each.chunk_hi) for each in came.get(out.src, [])):
                raise UsageError(
                    f"step {index}: rank {out.src} would overwrite chunk {out.chunk_lo} before it has sent it to rank {out.dst}",
                    hint="make it two steps",
                )
        for each in transfers:
            came.setdefault(each.dst, []).append(each)


def _append(moves: list[list[Move]], index: int, transfers: list[Transfer], send: str) -> None:
    out = {each.src: (each.dst, (each.chunk_lo, each.chunk_hi)) for each in transfers}
    into = {each.dst: (each.src, (each.chunk_lo, each.chunk_hi), each.reduce) for each in transfers}
    for rank in sorted(out.keys() | into.keys()):
        move = _make_move(index, send, out.get(rank), into.get(rank))
        moves[rank] += [] if move is None else [move]


def _in_elements(move: Move, layout: Layout) -> Move | None:
    out, into = layout.span(*move.out), layout.span(*move.into)
    sent = (move.to_rank, out) if out[1] > out[0] else None
    return _make_move(move.step, move.send, sent, (move.from_rank, into, move.reduce) if into[1] > into[0] else None)


# ---- a move as an armed fault sees it
def call_arguments(move: Move, out: Any, came: Any, op: str) -> dict[str, Any]:
    """A move as a call: "send" and "recv" as in `torch.distributed`, "sendrecv" with the names of both tensors.

    >>> call_arguments(Move(0, "send", to_rank=2), "x", None, "SUM")
    {'tensor': 'x', 'dst': 2}
    """
    given: dict[str, Any] = {}
    if move.kind != "recv":
        given |= {"tensor" if move.kind == "send" else "input_tensor": out, "dst": move.to_rank}
    if move.kind != "send":
        given |= {"tensor" if move.kind == "recv" else "output_tensor": came, "src": move.from_rank}
    return {**given, "op": op} if move.reduce else given


def call_tensors(kind: str, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """What such a call sends, and where it receives; None for what it does not do.

    >>> call_tensors("recv", {"tensor": "x", "src": 1})
    (None, 'x')
    """
    if kind == "sendrecv":
        return given["input_tensor"], given["output_tensor"]
    return (given["tensor"], None) if kind == "send" else (None, given["tensor"])
