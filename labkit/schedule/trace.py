"""A schedule as frames for the animation: after each step, which chunks changed and whose contributions are in them."""

from __future__ import annotations

import numpy as np

from ..errors import UsageError
from ..plain import record
from .holdings import EXACT, Holdings, Origins
from .load import Load
from .model import Schedule, Step, Transfer
from .simulate import Problem, simulate
from .text import explain_step

LARGEST = EXACT  # ranks; a larger world is a blur


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
class Trace:
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

    def __str__(self) -> str:
        from .trace_text import text

        return text(self)


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
