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

from .ops import reduce_op
from .program import Action, Move, Program
from .simulate import Problem


@dataclass
class _Standing:
    """Where a rank is in its program, and which halves of its action are still open."""

    actions: Sequence[Action | Move]
    at: int = 0
    sends: bool = False
    receives: bool = False

    def open(self) -> None:
        if self.at < len(self.actions):
            kind = self.actions[self.at].kind
            self.sends, self.receives = kind != "recv", kind != "send"

    @property
    def action(self) -> Action | Move | None:
        return self.actions[self.at] if self.at < len(self.actions) else None


OnTransfer = Callable[[int, int], None]


def check_programs(programs: Sequence[Program]) -> tuple[Problem, ...]:
    """What would go wrong if every send waits for its receive: "deadlock" or "mismatch"; nothing if all is well.

    >>> from .algorithm import ALGORITHMS
    >>> from .program import programs
    >>> check_programs(programs(ALGORITHMS["ring"].schedule(4)))
    ()
    """
    return _meet([program.actions for program in programs], lambda src, dst: None, lambda rank: None)


def run_programs(programs: Sequence[Program], inputs: Sequence[ArrayLike], op: str = "SUM") -> list[NDArray[Any]]:
    """Every rank's result, by executing the programs as ranks would; the programs must be free of problems."""
    machines = [_Machine(program, inputs, op) for program in programs]

    def transfer(src: int, dst: int) -> None:
        machines[dst].arrived = machines[src].outgoing()

    problems = _meet([machine.moves for machine in machines], transfer, lambda rank: machines[rank].complete())
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
        self.apart = self.data.copy()
        self.arrived: NDArray[Any] | None = None
        self.at = 0

    def outgoing(self) -> NDArray[Any]:
        move = self.moves[self.at]
        return (self.data if move.send == "held" else self.apart)[slice(*move.out)].copy()

    def complete(self) -> None:
        move = self.moves[self.at]
        if self.arrived is not None:
            span = slice(*move.into)
            self.data[span] = self.op.combine(self.data[span], self.arrived) if move.reduce else self.arrived
            if move.send == "handed":
                self.apart[span] = self.arrived
        self.arrived = None
        self.at += 1

    def result(self) -> NDArray[Any]:
        found = self.data[self.program.elements("end", self.num_elements)]
        return self.op.finish(found, self.program.world_size) if self.program.reduces else found


def _meet(
    actions: Sequence[Sequence[Action | Move]], transfer: OnTransfer, complete: Callable[[int], None]
) -> tuple[Problem, ...]:
    standing = [_Standing(each) for each in actions]
    for each in standing:
        each.open()
    waiting = deque(range(len(actions)))
    while waiting:
        rank = waiting.popleft()
        for src, dst in _matches(standing, rank):
            wrong = _mismatch(standing, src, dst)
            if wrong:
                return (wrong,)
            transfer(src, dst)
            standing[src].sends = standing[dst].receives = False
            for end in (src, dst):
                if not (standing[end].sends or standing[end].receives):
                    complete(end)
                    standing[end].at += 1
                    standing[end].open()
                    waiting.append(end)
    stuck = [rank for rank, each in enumerate(standing) if each.action is not None]
    return (_deadlock(standing, stuck),) if stuck else ()


def _matches(standing: list[_Standing], rank: int) -> list[tuple[int, int]]:
    """The transfers, of at most two, that can happen now because both sides are ready."""
    mine, found = standing[rank], []
    action = mine.action
    if action is None:
        return []
    if mine.sends:
        peer = standing[action.to_rank]
        if peer.action is not None and peer.receives and peer.action.from_rank == rank:
            found.append((rank, action.to_rank))
    if mine.receives:
        peer = standing[action.from_rank]
        if peer.action is not None and peer.sends and peer.action.to_rank == rank:
            found.append((action.from_rank, rank))
    return found


def _mismatch(standing: list[_Standing], src: int, dst: int) -> Problem | None:
    out, into = standing[src].action, standing[dst].action
    assert out is not None
    assert into is not None
    sent, wanted = out.out, into.into
    if sent == wanted:
        return None
    text = f"step {out.step}: rank {src} sends {_chunks(*sent)} and rank {dst} expects {_chunks(*wanted)}"
    return Problem("mismatch", text, out.step, src, sent[0])


def _chunks(low: int, high: int) -> str:
    return f"chunk {low}" if high == low + 1 else f"chunks {low} to {high - 1}"


def _deadlock(standing: list[_Standing], stuck: list[int]) -> Problem:
    """Follow who waits for whom from one stuck rank, until it comes round or ends."""
    rank, chain, parts = stuck[0], [], []
    while rank not in chain:
        chain.append(rank)
        each = standing[rank]
        action = each.action
        if action is None:
            parts.append(f"rank {rank}, which is done")
            break
        peer = action.to_rank if each.sends else action.from_rank
        parts.append(f"rank {rank} waits to {'send to' if each.sends else 'receive from'} rank {peer}")
        rank = peer
    first = standing[chain[0]].action
    step = first.step if first is not None else -1
    return Problem("deadlock", f"step {step}: " + ", ".join(parts), step, chain[0])
