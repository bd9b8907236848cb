"""Executes programs as the strictest transport would: nothing is buffered, a send is through when it is received.

What runs to its end here can't deadlock on a transport that waits less. `run_programs` is the pure twin of the run
on live ranks, and `check_programs` says who would wait for whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .collective import reduce_op
from .program import Move, Program
from .simulate import Problem


@dataclass
class _Progress:
    """Where a rank is in its program, and which halves of its move are still open."""

    moves: Sequence[Move]
    at: int = 0
    sends: bool = False
    receives: bool = False

    def open(self) -> None:
        if self.at < len(self.moves):
            kind = self.moves[self.at].kind
            self.sends, self.receives = kind != "recv", kind != "send"

    @property
    def move(self) -> Move | None:
        return self.moves[self.at] if self.at < len(self.moves) else None


OnTransfer = Callable[[int, int], None]


def check_programs(programs: Sequence[Program]) -> tuple[Problem, ...]:
    """What would go wrong if every send waits for its receive: "deadlock" or "mismatch"; nothing if all is well.

    >>> from .algorithm import ALGORITHMS
    >>> from .program import programs
    >>> check_programs(programs(ALGORITHMS["ring"].schedule(4)))
    ()
    """
    return _run([program.chunk_moves for program in programs], lambda src, dst: None, lambda rank: None)


def run_programs(programs: Sequence[Program], inputs: Sequence[ArrayLike], op: str = "SUM") -> list[NDArray[Any]]:
    """Every rank's result, by executing the programs as ranks would; the programs must be free of problems."""
    machines = [_Machine(program, inputs, op) for program in programs]

    def transfer(src: int, dst: int) -> None:
        machines[dst].arrived = machines[src].outgoing()

    problems = _run([machine.moves for machine in machines], transfer, lambda rank: machines[rank].complete())
    assert not problems
    return [machine.result() for machine in machines]


class _Machine:
    """One rank's memory while its program runs."""

    def __init__(self, program: Program, inputs: Sequence[ArrayLike], op: str) -> None:
        tensors = [np.asarray(each) for each in inputs]
        self.program, self.op = program, reduce_op(op)
        pieces = program.collective == "all_gather"
        self.num_elements = sum(map(len, tensors)) if pieces else len(tensors[program.root])
        self.moves = program.moves(self.num_elements)
        self.data = np.zeros(program.buffer_elements(self.num_elements), dtype=np.result_type(*tensors))
        start = program.elements("start", self.num_elements)
        self.data[start] = tensors[program.rank][: len(start)]
        self.copy = self.data.copy()
        self.arrived: NDArray[Any] | None = None
        self.at = 0

    def outgoing(self) -> NDArray[Any]:
        move = self.moves[self.at]
        return (self.data if move.send == "held" else self.copy)[slice(*move.out)].copy()

    def complete(self) -> None:
        move = self.moves[self.at]
        if self.arrived is not None:
            span = slice(*move.into)
            self.data[span] = self.op.combine(self.data[span], self.arrived) if move.reduce else self.arrived
            if move.send == "handed":
                self.copy[span] = self.arrived
        self.arrived = None
        self.at += 1

    def result(self) -> NDArray[Any]:
        found = self.data[self.program.elements("end", self.num_elements)]
        return self.op.finish(found, self.program.world_size) if self.program.reduces else found


def _run(moves: Sequence[Sequence[Move]], transfer: OnTransfer, complete: Callable[[int], None]) -> tuple[Problem, ...]:
    progress = [_Progress(each) for each in moves]
    for each in progress:
        each.open()
    waiting = deque(range(len(moves)))
    while waiting:
        rank = waiting.popleft()
        for src, dst in _matches(progress, rank):
            wrong = _mismatch(progress, src, dst)
            if wrong:
                return (wrong,)
            transfer(src, dst)
            progress[src].sends = progress[dst].receives = False
            for end in (src, dst):
                if not (progress[end].sends or progress[end].receives):
                    complete(end)
                    progress[end].at += 1
                    progress[end].open()
                    waiting.append(end)
    stuck = [rank for rank, each in enumerate(progress) if each.move is not None]
    return (_deadlock(progress, stuck),) if stuck else ()


def _matches(progress: list[_Progress], rank: int) -> list[tuple[int, int]]:
    """The transfers, of at most two, that can happen now because both sides are ready."""
    mine, found = progress[rank], []
    move = mine.move
    if move is None:
        return []
    if mine.sends:
        peer = progress[move.to_rank]
        if peer.move is not None and peer.receives and peer.move.from_rank == rank:
            found.append((rank, move.to_rank))
    if mine.receives:
        peer = progress[move.from_rank]
        if peer.move is not None and peer.sends and peer.move.to_rank == rank:
            found.append((move.from_rank, rank))
    return found


def _mismatch(progress: list[_Progress], src: int, dst: int) -> Problem | None:
    out, into = progress[src].move, progress[dst].move
    assert out is not None
    assert into is not None
    sent, wanted = out.out, into.into
    if sent == wanted:
        return None
    text = f"step {out.step}: rank {src} sends {_chunks(*sent)} and rank {dst} expects {_chunks(*wanted)}"
    return Problem("mismatch", text, out.step, src, sent[0])


def _chunks(low: int, high: int) -> str:
    return f"chunk {low}" if high == low + 1 else f"chunks {low} to {high - 1}"


def _deadlock(progress: list[_Progress], stuck: list[int]) -> Problem:
    """Follow who waits for whom from one stuck rank, until it comes round or ends."""
    rank, chain, parts = stuck[0], [], []
    while rank not in chain:
        chain.append(rank)
        each = progress[rank]
        move = each.move
        if move is None:
            parts.append(f"rank {rank}, which is done")
            break
        peer = move.to_rank if each.sends else move.from_rank
        parts.append(f"rank {rank} waits to {'send to' if each.sends else 'receive from'} rank {peer}")
        rank = peer
    first = progress[chain[0]].move
    step = first.step if first is not None else -1
    return Problem("deadlock", f"step {step}: " + ", ".join(parts), step, chain[0])
