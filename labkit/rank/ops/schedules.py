"""Runs a schedule's program on this rank, several of them in turn with the library's all-reduce, and one point of a sweep."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import torch

from ...errors import UsageError
from ...faults.base import LeaveCell
from ...registry import unknown
from ..channel import P2PChannel, agreed, all_reduce, barrier, collective, timed
from ..context import RankContext
from ..dispatch import OPS
from ..moves import Memory, Tally, step_by_step
from ..overlap import runner
from ..raised import describe_error

if TYPE_CHECKING:
    from ...schedule.program import Program


@OPS.register("schedule")
def schedule(
    context: RankContext,
    *,
    program: str,
    op: str,
    dtype: str = "",
    numel: int = 0,
    tensor: str = "",
    into: str = "",
    trace: bool = True,
    cell: int = 0,
) -> dict[str, Any]:
    """Execute a program on a rank's tensor (or on one made here), and hold the result against the library's all-reduce.

    The library's comes first, so that a rank whose program is over waits for nobody. `cell` is the world's newest one.
    """
    made, channel = load_program(program), P2PChannel(context)
    channel.request_id = context.request_id
    mine, num_elements = _input(context, channel, made, numel=numel, dtype=dtype, name=tensor, op=op)
    memory = Memory(made, num_elements, mine.dtype, context.device)
    memory.load(mine)
    wanted = memory.data.clone()
    # buffers that are zero but for a rank's own part are put together by adding; where the collective reduces, by its op
    all_reduce(channel, wanted, op if made.reduces else "SUM")
    moves = made.moves(num_elements)
    run = (step_by_step if trace else runner)(channel, memory, moves, op)
    context.at_cell(max(cell, context.cell))
    barrier(channel)
    began_s = time.monotonic()
    try:
        tally = run()
    except LeaveCell:
        return {"left": True}
    except BaseException as error:
        context.error = describe_error(error)  # for whoever asks why others wait for this rank
        raise
    ended_s = time.monotonic()
    result, wanted = memory.result(), memory.result(wanted)
    if op == "AVG" and made.reduces:
        result, wanted = result / context.world_size, wanted / context.world_size
    if into:
        context.namespace[into] = result.reshape(context.namespace[tensor].shape) if _alike(context, tensor, result) else result
    return {
        **_plain(tally),
        "numel": num_elements,
        "began_s": began_s,
        "ended_s": ended_s,
        **_compared(result, wanted, context.world_size),
    }


def load_program(text: str) -> Program:
    """A program as it travels; the schedules are loaded now, so that a rank that runs none starts without them."""
    from ...plain import loads
    from ...schedule.program import Program

    found = loads(text)
    assert isinstance(found, Program)
    return found


def _alike(context: RankContext, name: str, result: torch.Tensor) -> bool:
    return bool(name) and context.namespace[name].numel() == result.numel()


def _plain(tally: Tally) -> dict[str, Any]:
    steps = [[step, seconds] for step, seconds in sorted(tally.step_s.items())]
    return {**{name: value for name, value in vars(tally).items() if name != "step_s"}, "step_s": steps}


def _input(
    context: RankContext, channel: P2PChannel, program: Program, *, numel: int, dtype: str, name: str, op: str
) -> tuple[torch.Tensor, int]:
    """This rank's flat tensor, and n; UsageError on every rank if they do not fit."""
    if not name:
        kind: torch.dtype = getattr(torch, dtype)
        memory = Memory(program, numel, torch.uint8, "cpu")
        return pattern(sum(stop - start for start, stop in memory.spans("start")), context, kind, op), numel
    from ...schedule.records import ITEM_BYTES

    value = context.namespace.get(name)
    kinds = list(ITEM_BYTES)
    own = str(value.dtype)[6:] if isinstance(value, torch.Tensor) else ""
    size = value.numel() if isinstance(value, torch.Tensor) else -1
    # before anybody raises: whoever does not raise would wait for the others' messages
    same = agreed(channel, size * 100 + (kinds.index(own) if own in kinds else 99))
    if name not in context.namespace:
        raise unknown("variable", name, context.user_names())
    if not own:
        raise UsageError(f"{name} is a {type(value).__name__}, not a tensor", hint="name a tensor that every rank has")
    if not same:
        raise UsageError(f"{name} differs in size or dtype between ranks", hint=f"world.tensors({name!r}) shows them")
    if own not in kinds:
        raise UsageError(f"the dtype of {name} is {own}", hint=f"make it one of {', '.join(kinds)}")
    if op == "AVG" and not own.startswith(("float", "bfloat")):
        raise UsageError(f"{op} of {own} is not defined", hint="use SUM, or a dtype of floats")
    assert isinstance(value, torch.Tensor)
    flat = value.detach().reshape(-1).to(context.device)
    return flat, size * context.world_size if program.collective == "all_gather" else size


def pattern(count: int, context: RankContext, dtype: torch.dtype, op: str) -> torch.Tensor:
    """Numbers that differ by rank and place, small enough that no op overflows them; fractions for floats."""
    at = torch.arange(count, dtype=torch.int64, device=context.device) * 7 + context.rank * 13
    if op == "PRODUCT":
        return (at % 3 + 1).to(dtype)
    return (at % 11 / 7).to(dtype) if dtype.is_floating_point else (at % 11).to(dtype)


def _compared(result: torch.Tensor, wanted: torch.Tensor, world_size: int) -> dict[str, Any]:
    """Bitwise for whole numbers; floats may differ by the rounding of as many additions as there are ranks."""
    equal = bool(torch.equal(result, wanted))
    worst = 0.0
    if not equal and result.numel():
        worst = _worst(result.double(), wanted.double())
    allowed = 2 * world_size * torch.finfo(result.dtype).eps if result.dtype.is_floating_point else 0.0
    host = result.to("cpu").contiguous().view(torch.uint8).numpy() if result.numel() else b""
    return {
        "agrees": worst <= allowed if allowed else equal,
        "worst": worst,
        "dtype": str(result.dtype)[6:],
        "digest": hashlib.blake2b(host, digest_size=12).hexdigest(),
    }


def _worst(result: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference relative to the largest value. Where both hold the same NaN or infinity there is none."""
    from ...schedule.records import FAR_OFF

    same = (result == wanted) | (result.isnan() & wanted.isnan())
    gap = torch.where(same, 0.0, (result - wanted).abs()).nan_to_num(nan=torch.inf).max().item()
    finite = torch.where(wanted.isfinite(), wanted.abs(), 0.0)
    return min(gap / max(finite.max().item(), 1e-300), FAR_OFF) if gap else 0.0


@OPS.register("compare_schedules")
def compare_schedules(
    context: RankContext, *, programs: list[str], numel: int, dtype: str, op: str, rounds: int
) -> dict[str, Any]:
    """Seconds of each program and of the library's all-reduce, in turn; the first round is not counted.

    The order turns round every time, so that no one always runs after the same neighbour.
    """
    channel, kind = P2PChannel(context), getattr(torch, dtype)
    runs = []
    for text in programs:
        program = load_program(text)
        memory = Memory(program, numel, kind, context.device)
        runs.append(runner(channel, memory, program.moves(numel), op))
    library = torch.zeros(numel, dtype=kind, device=context.device)
    takes = [*runs, lambda: all_reduce(channel, library, op)]
    times: list[list[list[float]]] = [[] for _ in takes]
    for number in range(rounds + 1):
        order = range(len(takes)) if number % 2 else reversed(range(len(takes)))
        for index in order:
            span = timed(channel, takes[index])
            if number:
                times[index].append(list(span))
    return {"times": times}


@OPS.register("sweep_point")
def sweep_point(
    context: RankContext,
    *,
    name: str,
    program: str,
    numel: int,
    dtype: str,
    op: str,
    warmups: int,
    rounds: int,
    calls: int,
    members: list[int],
) -> list[list[float]]:
    """When each round began and ended on this rank; a round is `calls` calls, after `warmups` rounds that don't count.

    A rank that is none of the `members` has none.
    """
    if context.rank not in members:
        context.groups.part(tuple(members))  # they can't make their group without this rank
        return []
    channel, kind = P2PChannel(context, members), getattr(torch, dtype)
    if program:
        made = load_program(program)
        run: Any = runner(channel, Memory(made, numel, kind, context.device), made.moves(numel), op)
    else:
        run = collective(channel, name, numel, kind)
    taken = [timed(channel, run, calls) for _ in range(warmups + rounds)]
    return [list(span) for span in taken[warmups:]]
