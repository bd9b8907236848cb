"""What each rank does, one action after another: the form of a schedule that ranks execute.

An action is a send, a receive, or both at once; the next one starts when it is complete. A step in which a rank
has several partners is cut into rounds, the same ones on every rank, in which each rank sends at most once and
receives at most once. So the programs run to their end even if a send waits for its receive (rendezvous).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import UsageError
from ..plain import record
from .collective import Ranges, collective
from .layout import Layout
from .model import Schedule, Step, Transfer


@record
class Action:
    """One action of a rank: `kind` is "send", "recv" or "sendrecv".

    It sends chunks `send_lo` to `send_hi - 1` to `to_rank`, and receives chunks `recv_lo` to `recv_hi - 1` from
    `from_rank` into a buffer of their own; when both are through, it adds (`reduce`) or copies what came.
    `send` is "held", "own" or "handed": see `model.SENDS`.
    """

    step: int
    kind: str
    to_rank: int = -1
    send_lo: int = 0
    send_hi: int = 0
    from_rank: int = -1
    recv_lo: int = 0
    recv_hi: int = 0
    reduce: bool = False
    send: str = "held"

    @property
    def out(self) -> tuple[int, int]:
        return self.send_lo, self.send_hi

    @property
    def into(self) -> tuple[int, int]:
        return self.recv_lo, self.recv_hi


@record
class Move:
    """An action in elements of the flat tensor: [send_start, send_stop) out, [recv_start, recv_stop) in."""

    step: int
    kind: str
    to_rank: int = -1
    send_start: int = 0
    send_stop: int = 0
    from_rank: int = -1
    recv_start: int = 0
    recv_stop: int = 0
    reduce: bool = False
    send: str = "held"

    @property
    def out(self) -> tuple[int, int]:
        return self.send_start, self.send_stop

    @property
    def into(self) -> tuple[int, int]:
        return self.recv_start, self.recv_stop


@record
class Program:
    """All that one rank needs to take part: plain, so that it can travel.

    The rank lays its tensor into a buffer of `buffer_elements(n)` at `elements("start", n)`, does `moves(n)`, and
    finds the result at `elements("end", n)`. If `apart`, it also keeps a copy of that buffer as it was at the
    start: moves with send "own" or "handed" send from the copy, and what a "handed" move receives also goes there.
    """

    name: str
    collective: str
    rank: int
    world_size: int
    num_chunks: int
    actions: tuple[Action, ...]
    start: Ranges
    end: Ranges
    apart: bool = False
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
        """The actions for a tensor of n elements. Empty chunks are left out, on both sides alike.

        >>> from .algorithm import ALGORITHMS
        >>> [each.kind for each in programs(ALGORITHMS["ring"].schedule(3))[0].moves(1)]
        ['recv', 'send']
        """
        layout = self.layout(num_elements)
        return [move for action in self.actions if (move := _move(action, layout)) is not None]


def programs(schedule: Schedule) -> tuple[Program, ...]:
    """The program of every rank; UsageError if a rank would overwrite what it has still to send."""
    actions: list[list[Action]] = [[] for _ in range(schedule.world_size)]
    apart = False
    for index, step in enumerate(schedule.steps()):
        apart = apart or step.send != "held"
        rounds = list(split_rounds(step))
        if len(rounds) > 1:
            _check_order(index, rounds, step.send)
        for transfers in rounds:
            _append(actions, index, transfers, step.send)
    return tuple(_program(schedule, rank, actions[rank], apart) for rank in range(schedule.world_size))


def _program(schedule: Schedule, rank: int, actions: list[Action], apart: bool) -> Program:
    return Program(
        name=schedule.name,
        collective=schedule.collective,
        rank=rank,
        world_size=schedule.world_size,
        num_chunks=schedule.num_chunks,
        actions=tuple(actions),
        start=schedule.start(rank),
        end=schedule.end(rank),
        apart=apart,
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


def _append(actions: list[list[Action]], index: int, transfers: list[Transfer], send: str) -> None:
    out = {transfer.src: transfer for transfer in transfers}
    into = {transfer.dst: transfer for transfer in transfers}
    for rank in sorted(out.keys() | into.keys()):
        sent, got = out.get(rank), into.get(rank)
        actions[rank].append(
            Action(
                step=index,
                kind=("sendrecv" if got else "send") if sent else "recv",
                to_rank=sent.dst if sent else -1,
                send_lo=sent.chunk_lo if sent else 0,
                send_hi=sent.chunk_hi if sent else 0,
                from_rank=got.src if got else -1,
                recv_lo=got.chunk_lo if got else 0,
                recv_hi=got.chunk_hi if got else 0,
                reduce=got.reduce if got else False,
                send=send,
            )
        )


def _move(action: Action, layout: Layout) -> Move | None:
    out, into = layout.span(*action.out), layout.span(*action.into)
    sends, receives = out[1] > out[0], into[1] > into[0]
    if not (sends or receives):
        return None
    return Move(
        step=action.step,
        kind=("sendrecv" if receives else "send") if sends else "recv",
        to_rank=action.to_rank if sends else -1,
        send_start=out[0] if sends else 0,
        send_stop=out[1] if sends else 0,
        from_rank=action.from_rank if receives else -1,
        recv_start=into[0] if receives else 0,
        recv_stop=into[1] if receives else 0,
        reduce=action.reduce and receives,
        send=action.send,
    )


# ---- a move as an armed fault sees it: on a live rank and on an acted one
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
