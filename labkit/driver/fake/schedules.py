"""Schedules on fake ranks: the programs of real ones, move by move, on numpy and on the world's own clock.

What they give is exact: the result to the last bit, and the seconds that the link's alpha and beta come to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from ...errors import UsageError
from ...faults import LeaveCell
from ...plain import loads
from ...registry import unknown
from ...schedule.cost import predict
from ...schedule.ops import reduce_op
from ...schedule.program import Move, Program, call_arguments, call_tensors
from ...schedule.records import FAR_OFF, ITEM_BYTES
from ...schedule.sweeps import LIBRARY_MODELS
from ...wire import Call
from .dist import Issued
from .messages import Half, Messages
from .tensors import Tensor, as_tensor

if TYPE_CHECKING:
    from .rank import FakeRank

REQUESTS = ("schedule", "compare_schedules", "sweep_point")


class Buffer:
    """A rank's memory for a program, as `rank/moves.py` has it."""

    def __init__(self, program: Program, num_elements: int, tensor: Any) -> None:
        self.program, self.num_elements = program, num_elements
        self.data = as_tensor(numpy.zeros(program.buffer_elements(num_elements), tensor.dtype))
        start = program.elements("start", num_elements)
        self.data[start] = numpy.asarray(tensor).reshape(-1)[: len(start)]
        self.apart = self.data.clone() if program.needs_copy else self.data

    def outgoing(self, move: Move) -> Tensor:
        return as_tensor((self.data if move.send == "held" else self.apart)[slice(*move.out)])

    def arrive(self, move: Move, came: Any, op: str) -> None:
        span = slice(*move.into)
        self.data[span] = reduce_op(op).combine(self.data[span], came) if move.reduce else came
        if move.send == "handed":
            self.apart[span] = came

    def result(self, data: Any) -> Any:
        return numpy.asarray(data)[self.program.elements("end", self.num_elements)]


class Runner:
    """One rank's program in one request."""

    def __init__(self, rank: FakeRank, program: Program, op: str, members: Sequence[int] = ()) -> None:
        self.rank, self.program, self.op = rank, program, op
        self.members = tuple(members) or tuple(range(rank.world_size))
        self.messages: Messages = rank.meetings.messages
        self.faults = [each for each in rank.interceptors if each.in_schedules]
        self.step_s: dict[int, float] = {}
        self.sent: list[int] = []  # bytes of each message
        self.received: list[int] = []

    def run(self, moves: Sequence[Move], buffer: Buffer) -> None:
        """Every move to its end before the next one starts, through the armed faults."""
        for number, move in enumerate(moves, start=1):
            began_s = self.rank.clock.now_s()
            self._make(number, move, buffer)
            self.step_s[move.step] = self.step_s.get(move.step, 0.0) + self.rank.clock.now_s() - began_s

    def time(self, moves: Sequence[Move], item_bytes: int) -> None:
        """The same without data, lines and faults: only the time counts."""
        for move in moves:
            self.messages.exchange(self.rank, self._halves(move, item_bytes))

    def _halves(self, move: Move, item_bytes: int, out: Any = None, came: Any = None) -> list[Half]:
        halves = []
        if move.kind != "send":
            size = (move.num_into) * item_bytes if came is None else came.nbytes
            halves.append(Half(self.rank, self.members[move.from_rank], False, size, came))
        if move.kind != "recv":
            size = (move.num_out) * item_bytes if out is None else out.nbytes
            halves.append(Half(self.rank, self.members[move.to_rank], True, size, out))
        return halves

    def _make(self, number: int, move: Move, buffer: Buffer) -> None:
        rank, came = self.rank, as_tensor(numpy.zeros(move.num_into, buffer.data.dtype))
        pending = Issued(move.kind, (), call_arguments(move, buffer.outgoing(move), came, self.op), None, number, rank.cell)
        sends = move.kind == "send"
        first = Call(
            len(rank.calls) + 1, 0, "send" if sends else "recv", group_ranks=self.members,
            root=self.members[move.to_rank if sends else move.from_rank], cell=rank.cell, state="begun",
            issued_s=rank.clock.now_s(), algorithm=self.program.name, step=move.step, move=number, turn=rank.request,
        )  # fmt: skip
        planned = _seen(first, pending, move, self.op)
        rank.note(planned)
        made: list[str] = []

        def issue(call: Any) -> None:
            op = str(call.kwargs.get("op", self.op))
            line = replace(_seen(first, call, move, op), state="issued", issued_s=rank.clock.now_s())
            line = replace(line, planned=planned.carries if line.carries != planned.carries else "")
            place = rank.note(line, again=not made)
            made.append(op)
            out, into = call_tensors(call.op, call.kwargs)
            self.sent += [] if out is None else [int(out.nbytes)]
            self.received += [] if into is None else [int(into.nbytes)]
            rank.waiting_for(place, lambda: self.messages.exchange(rank, self._halves(move, 0, out, into)))

        rank.through_faults(self.faults, pending, issue)
        if made and not sends:
            buffer.arrive(move, came, made[-1])


def _seen(line: Call, call: Any, move: Move, op: str) -> Call:
    out, into = call_tensors(call.op, call.kwargs)
    tensor = out if into is None else into
    return replace(
        line, shape=(int(tensor.size),), dtype=tensor.dtype.name, num_bytes=int(tensor.nbytes),
        reduce_op=op.lower() if move.reduce else "",
    )  # fmt: skip


# ---- the requests
def schedule(
    rank: FakeRank, *, program: str, op: str, dtype: str, numel: int, tensor: str, into: str, trace: bool, cell: int
) -> dict[str, Any]:
    """What `rank/ops/schedules.py` does on a real rank; a fake one always makes one move after the other."""
    made: Program = loads(program)
    rank.cell, rank.error = max(rank.cell, cell), None
    mine, num_elements = _input(rank, made, numel=numel, dtype=dtype, name=tensor, op=op)
    buffer = Buffer(made, num_elements, mine)
    everyone = tuple(range(rank.world_size))
    wanted = _reference(made, op, rank.meetings.messages.gather(rank, 1, everyone, numpy.array(buffer.data)))
    runner = Runner(rank, made, op)
    moves = made.moves(num_elements)
    began_s = rank.clock.now_s()
    try:
        runner.run(moves, buffer)
    except LeaveCell:
        return {"left": True}
    ended_s = rank.clock.now_s()
    result, right = buffer.result(buffer.data), buffer.result(wanted)
    if made.reduces:
        result, right = (reduce_op(op).finish(each, rank.world_size) for each in (result, right))
    if into:
        shaped = tensor and rank.namespace[tensor].size == result.size
        rank.namespace[into] = as_tensor(result.reshape(rank.namespace[tensor].shape) if shaped else result.copy())
    return {
        "sent_messages": len(runner.sent), "received_messages": len(runner.received), "sent_bytes": sum(runner.sent),
        "received_bytes": sum(runner.received), "step_s": [[step, s] for step, s in sorted(runner.step_s.items())],
        "numel": num_elements, "began_s": began_s, "ended_s": ended_s, **_compared(result, right, rank.world_size),
    }  # fmt: skip


def _reference(program: Program, op: str, buffers: Sequence[Any]) -> Any:
    combine = reduce_op(op if program.reduces else "SUM").combine
    total = buffers[0]
    for other in buffers[1:]:
        total = combine(total, other)
    return total


def _input(rank: FakeRank, program: Program, *, numel: int, dtype: str, name: str, op: str) -> tuple[Any, int]:
    if not name:
        if dtype == "bfloat16":
            raise UsageError("the fake world has no bfloat16", hint="take float32, or a real world")
        at = numpy.arange(len(program.elements("start", numel))) * 7 + rank.rank * 13
        kind = numpy.dtype(dtype)
        values = at % 3 + 1 if op == "PRODUCT" else at % 11 / 7 if kind.kind == "f" else at % 11
        return as_tensor(values.astype(kind)), numel
    value = rank.namespace.get(name)
    own = (value.size, value.dtype.name) if isinstance(value, Tensor) else None
    same = set(rank.meetings.messages.gather(rank, 0, range(rank.world_size), own))
    if name not in rank.namespace:
        raise unknown("variable", name, rank.user_names())
    if not isinstance(value, Tensor):
        raise UsageError(f"{name} is a {type(value).__name__}, not a tensor", hint="name a tensor that every rank has")
    if len(same) > 1:
        raise UsageError(f"{name} has not the same size and dtype on every rank", hint=f"world.tensors({name!r}) shows them")
    if value.dtype.name not in ITEM_BYTES:
        raise UsageError(f"{name} is of {value.dtype.name}", hint=f"make it one of {', '.join(ITEM_BYTES)}")
    reduce_op(op).check(value.dtype)
    return value.reshape(-1), value.size * (rank.world_size if program.collective == "all_gather" else 1)


def _compared(result: Any, right: Any, world_size: int) -> dict[str, Any]:
    equal = bool(numpy.array_equal(result, right))
    worst = 0.0
    if not equal and result.size:
        worst = _worst(result.astype(float), right.astype(float))
    allowed = 2 * world_size * float(numpy.finfo(result.dtype).eps) if result.dtype.kind == "f" else 0.0
    digest = hashlib.blake2b(numpy.ascontiguousarray(result).tobytes(), digest_size=12).hexdigest()
    return {"agrees": worst <= allowed if allowed else equal, "worst": worst, "dtype": result.dtype.name, "digest": digest}


def _worst(result: Any, right: Any) -> float:
    same = (result == right) | (numpy.isnan(result) & numpy.isnan(right))
    with numpy.errstate(invalid="ignore"):
        gap = numpy.nan_to_num(numpy.where(same, 0.0, numpy.abs(result - right)), nan=numpy.inf).max()
    largest = max(numpy.where(numpy.isfinite(right), numpy.abs(right), 0.0).max(), 1e-300)
    return float(min(gap / largest, FAR_OFF)) if gap else 0.0


def compare_schedules(rank: FakeRank, *, programs: Sequence[str], numel: int, dtype: str, op: str, rounds: int) -> dict[str, Any]:
    """Each program once on the clock, and the library by the model; every round takes the same."""
    everyone, item_bytes = tuple(range(rank.world_size)), ITEM_BYTES[dtype]
    takes = [_of(rank, text, op, numel, item_bytes, everyone) for text in programs]
    takes.append(_library(rank, "all_reduce", numel * item_bytes, everyone))
    spans = [_span(rank, number, everyone, take) for number, take in enumerate(takes)]
    return {"times": [[span] * rounds for span in spans]}


def sweep_point(
    rank: FakeRank, *, name: str, program: str, numel: int, dtype: str, op: str, warmups: int, rounds: int, calls: int,
    members: Sequence[int],
) -> list[list[float]]:  # fmt: skip
    """One size, timed once: every round takes the same."""
    if rank.rank not in members:
        return []
    item_bytes = ITEM_BYTES[dtype]
    take = _of(rank, program, op, numel, item_bytes, members) if program else _library(rank, name, numel * item_bytes, members)
    began_s, ended_s = _span(rank, 0, members, take)
    return [[began_s, began_s + calls * (ended_s - began_s)]] * rounds


def _of(rank: FakeRank, text: str, op: str, numel: int, item_bytes: int, members: Sequence[int]) -> Callable[[], None]:
    program: Program = loads(text)
    return lambda: Runner(rank, program, op, members).time(program.moves(numel), item_bytes)


def _library(rank: FakeRank, name: str, num_bytes: int, members: Sequence[int]) -> Callable[[], None]:
    link = rank.meetings.messages.link
    return lambda: rank.sleep(predict(LIBRARY_MODELS[name], len(members), num_bytes, link).seconds)


def _span(rank: FakeRank, number: int, members: Sequence[int], take: Callable[[], None]) -> list[float]:
    rank.meetings.messages.gather(rank, number, members)
    began_s = rank.clock.now_s()
    take()
    return [began_s, rank.clock.now_s()]
