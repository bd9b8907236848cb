"""A schedule as frames for the animation: after each step, which chunks changed and whose contributions are in them."""

from __future__ import annotations

import numpy as np

from ..document import Printed
from ..errors import UsageError, count
from ..phrases import WIDTH, wrapped
from ..plain import record
from ..units import format_bytes
from .holdings import EXACT, Holdings, Origins
from .model import Load, Schedule, Step, Transfer
from .simulate import Problem, simulate
from .text import explain_step

LARGEST = EXACT  # ranks; a larger world is a blur
_STEPS = 24  # that are told
_LINES = 2  # of one step; one that takes more is cut to one


@record
class Change:
    """A chunk of a rank after a step; `origins` is the set of contributing ranks as hex digits: bit r is rank r."""

    rank: int
    chunk: int
    origins: str

    @property
    def ranks(self) -> tuple[int, ...]:
        mask = int(self.origins, 16)
        return tuple(rank for rank in range(mask.bit_length()) if mask >> rank & 1)


@record
class StepFrame:
    """One step: its transfers, what they changed, and every rank's bytes and messages sent so far."""

    step: int
    phase: str
    text: str
    transfers: tuple[Transfer, ...]
    changes: tuple[Change, ...]
    sent_bytes: tuple[int, ...]
    sent_messages: tuple[int, ...]


@record
class Trace(Printed):
    """All frames of a schedule for one tensor size; `start` is what every rank has before the first step."""

    name: str
    title: str
    collective: str
    world_size: int
    num_chunks: int
    chunk_elements: tuple[int, ...]
    start: tuple[Change, ...]
    frames: tuple[StepFrame, ...]
    problems: tuple[Problem, ...] = ()
    root: int = 0

    def origins(self, step: int) -> dict[tuple[int, int], tuple[int, ...]]:
        """Who is in chunk c of rank r after `step` (-1: at the start), as {(r, c): ranks}; chunks with nobody are left out."""
        found = {(each.rank, each.chunk): each.ranks for each in self.start}
        for frame in self.frames[: step + 1]:
            found.update({(each.rank, each.chunk): each.ranks for each in frame.changes})
        return found


def trace(schedule: Schedule, num_elements: int, itemsize: int = 4) -> Trace:
    """The frames of a schedule.

    >>> from .algorithm import ALGORITHMS
    >>> seen = trace(ALGORITHMS["ring"].schedule(3), 6)
    >>> seen.origins(0)[1, 2], seen.frames[-1].sent_bytes, len(seen.frames)
    ((0, 1), (32, 32, 32), 4)
    """
    if schedule.world_size > LARGEST:
        raise UsageError(f"a schedule of {schedule.world_size} ranks is too large to draw", hint=f"draw at most {LARGEST} ranks")
    if itemsize not in (1, 2, 4, 8):
        raise UsageError(f"itemsize can't be {itemsize}", hint="give 1, 2, 4 or 8")
    origins = Origins(schedule)
    start = tuple(_change(origins, rank, chunk) for rank in range(schedule.world_size) for chunk in _held(schedule, rank))
    frames: list[StepFrame] = []
    num_steps = schedule.num_steps
    sent = np.zeros((2, schedule.world_size), dtype=np.int64)

    def on_step(index: int, step: Step, load: Load, now: Holdings) -> None:
        assert isinstance(now, Origins)
        sent[0] += load.sent_bytes
        sent[1] += load.sent_messages
        changes = tuple(_change(now, *cell) for cell in _touched(step))
        counts = (tuple(row.tolist()) for row in sent)
        frames.append(
            StepFrame(index, step.phase, explain_step(schedule, step, index, num_steps), step.transfers(), changes, *counts)
        )

    dtype = np.dtype(f"i{itemsize}")
    layout = schedule.layout(num_elements)
    zeros = [np.zeros(len(layout.elements(schedule.start(rank))), dtype) for rank in range(schedule.world_size)]
    run = simulate(schedule, zeros, on_step=on_step)
    return Trace(
        name=schedule.name,
        title=schedule.promise.title,
        collective=schedule.collective,
        world_size=schedule.world_size,
        num_chunks=schedule.num_chunks,
        chunk_elements=tuple(layout.sizes().tolist()),
        start=start,
        frames=tuple(frames),
        problems=run.problems,
        root=schedule.root,
    )


def _held(schedule: Schedule, rank: int) -> list[int]:
    return [chunk for low, high in schedule.start(rank) for chunk in range(low, high)]


def _touched(step: Step) -> list[tuple[int, int]]:
    return sorted({(t.dst, chunk) for t in step.transfers() for chunk in range(t.chunk_lo, t.chunk_hi)})


def _change(origins: Origins, rank: int, chunk: int) -> Change:
    return Change(rank, chunk, f"{origins.mask(rank * origins.schedule.num_chunks + chunk):x}")


# ---- in words
def title(trace: Trace) -> str:
    """For instance "ring: all-reduce on 4 ranks, 6 steps"."""
    return f"{trace.name}: {trace.title} on {count(trace.world_size, 'rank')}, {count(len(trace.frames), 'step')}"


def summary(trace: Trace, position: int) -> str:
    """The counters of all ranks in one line."""
    frame = trace.frames[position - 1] if position else None
    sent = frame.sent_bytes if frame else (0,) * trace.world_size
    messages = frame.sent_messages if frame else (0,) * trace.world_size
    low, high = format_bytes(min(sent)), format_bytes(max(sent))
    volume = low if low == high else f"{low} to {high}"
    fewest, most = min(messages), max(messages)
    many = count(most, "message") if fewest == most else f"{fewest} to {most} messages"
    return f"each rank has sent {volume} in {many}; together {format_bytes(sum(sent))} in {count(sum(messages), 'message')}"


def chunk_range(low: int, high: int) -> str:
    return str(low) if high == low + 1 else f"{low}-{high - 1}"


def as_text(trace: Trace, width: int = WIDTH, lines: int = _LINES) -> str:
    """Short enough to read: the steps, then who sent how much, then what is wrong; each step has so many lines, or is cut."""
    told = [wrapped(title(trace), width), *(_step(frame, width, lines) for frame in trace.frames[:_STEPS])]
    if len(trace.frames) > _STEPS:
        told.append(f"... {count(len(trace.frames) - _STEPS, 'more step')}")
    told.append(wrapped(f"at the end {summary(trace, len(trace.frames))}", width))
    return "\n".join([*told, *(wrapped(problem.sentence, width) for problem in trace.problems)])


def _step(frame: StepFrame, width: int, lines: int) -> str:
    moves = " ".join(f"{t.src}>{t.dst}{'+' if t.reduce else '='}{chunk_range(t.chunk_lo, t.chunk_hi)}" for t in frame.transfers)
    line = f"{frame.step} {frame.phase or '-'}: {moves}"
    whole = wrapped(line, width)
    if whole.count("\n") < lines:
        return whole
    return wrapped(line, width, most=1, rest=f" ... {count(len(frame.transfers), 'transfer')}")
