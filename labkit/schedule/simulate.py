"""Runs a schedule on numpy arrays, and watches: what is sent without being there, counted twice, or missing at the end.

All ranks' chunks lie in one array, padded to the longest chunk, so that a step is a few numpy calls however many
ranks take part: 2 million transfers of a ring of 1,024 take about a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..document import Printed
from ..errors import UsageError
from ..plain import record
from .collective import ReduceOp, reduce_op
from .holdings import Cells, Holdings, holdings
from .model import Counter, Load, Schedule, Step, Totals, step_load

MANY = 16  # problems reported; a wrong index makes thousands of the same kind


@record
class Problem(Printed):
    """Something wrong with a schedule.

    `check`: "absent" (sends, or adds onto, what is not there), "double" (counts something twice), "clash" (two
    transfers write one chunk at once), "end" (the wrong state at the end), "mismatch" or "deadlock" (see `program`).
    """

    check: str
    sentence: str
    step: int = -1
    rank: int = -1
    chunk: int = -1


@dataclass(frozen=True)
class Run:
    """A simulated run: `outputs` by rank, the counted `totals`, and what is wrong, if anything."""

    schedule: Schedule
    outputs: list[NDArray[Any]]
    totals: Totals
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


OnStep = Callable[[int, Step, Load, Holdings], None]


def simulate(
    schedule: Schedule, inputs: Sequence[ArrayLike], op: str = "SUM", *, check: bool = True, on_step: OnStep | None = None
) -> Run:
    """Run a schedule; `inputs[rank]` is what the rank starts with, in the order of its chunks.

    >>> from .algorithm import ALGORITHMS
    >>> run = simulate(ALGORITHMS["ring"].schedule(3), [[1, 2], [10, 20], [100, 200]])
    >>> run.outputs[1].tolist(), run.totals.by_rank.sent_messages.tolist(), run.ok
    ([111, 222], [4, 4, 4], True)
    """
    tensors = _tensors(inputs)
    num_elements = check_inputs(schedule, tensors)
    chosen = reduce_op(op)
    dtype = np.result_type(*tensors) if tensors else np.dtype(float)
    if schedule.promise.reduces:
        chosen.check(dtype)
    simulator = Simulator(schedule, num_elements, dtype, chosen, check=check or on_step is not None)
    simulator.fill(tensors)
    with np.errstate(all="ignore"):  # overflow is the learner's to see in the numbers
        for index, step in enumerate(schedule.steps()):
            load = simulator.do(index, step)
            if on_step is not None and simulator.holdings is not None:
                on_step(index, step, load, simulator.holdings)
        return Run(schedule, simulator.outputs(), simulator.counter.totals(), tuple(simulator.finish()))


def _tensors(inputs: Sequence[ArrayLike]) -> list[NDArray[Any]]:
    """The inputs as arrays of numbers; UsageError for what is none."""
    try:
        tensors = [np.asarray(each) for each in inputs]
    except (TypeError, ValueError):  # no sequence at all, or rows of different lengths
        raise UsageError("the inputs are not tensors", hint="give one one-dimensional array of numbers per rank") from None
    for rank, tensor in enumerate(tensors):
        if tensor.dtype.kind not in "biufc":
            raise UsageError(f"the tensor of rank {rank} does not hold numbers", hint="give arrays of numbers")
    return tensors


def check_schedule(schedule: Schedule) -> tuple[Problem, ...]:
    """What is wrong with a schedule, without data; nothing if it does what its collective promises."""
    empty = np.zeros(0, dtype=np.int8)
    return simulate(schedule, [empty] * schedule.world_size, "MAX").problems


def check_inputs(schedule: Schedule, tensors: Sequence[NDArray[Any]]) -> int:
    """n in elements; UsageError if the tensors can't be what ranks start with."""
    if len(tensors) != schedule.world_size:
        raise UsageError(f"{len(tensors)} tensors for {schedule.world_size} ranks", hint="give one per rank")
    if any(tensor.ndim != 1 for tensor in tensors):
        raise UsageError("a tensor is not one-dimensional", hint="give one-dimensional arrays")
    starts = schedule.promise.start
    total = len(tensors[schedule.root]) if starts != "piece" else sum(len(tensor) for tensor in tensors)
    layout = schedule.layout(total)
    for rank, tensor in enumerate(tensors):
        wanted = sum(layout.start(high) - layout.start(low) for low, high in schedule.start(rank))
        if len(tensor) != wanted and not (starts == "root" and rank != schedule.root):
            raise UsageError(
                f"rank {rank} has {len(tensor)} elements, not {wanted}",
                hint=f"that is what {schedule.promise.title} of {total} elements starts with",
            )
    return total


class Simulator:
    """The state of all ranks, and one method per step."""

    def __init__(self, schedule: Schedule, num_elements: int, dtype: np.dtype[Any], op: ReduceOp, *, check: bool) -> None:
        self.schedule, self.op = schedule, op
        self.layout = schedule.layout(num_elements)
        self.starts = self.layout.bounds()
        sizes = np.diff(self.starts)
        self.width = int(sizes.max(initial=0))
        cells = schedule.world_size * schedule.num_chunks
        self.data = np.zeros((cells, self.width), dtype=dtype)
        self.handed: NDArray[Any] | None = None
        # where each element of the whole tensor lies in a rank's row of padded chunks
        self._place = np.repeat(np.arange(schedule.num_chunks) * self.width - self.starts[:-1], sizes) + np.arange(
            self.starts[-1]
        )
        self.counter = Counter(schedule.world_size)
        self.holdings = holdings(schedule) if check else None
        self.problems: list[Problem] = []
        self._marks = np.zeros(cells, dtype=np.int64)

    def fill(self, tensors: Sequence[NDArray[Any]]) -> None:
        for rank, tensor in enumerate(tensors):
            here = self._place[self.layout.elements(self.schedule.start(rank))]
            self._row(rank)[here] = tensor[: len(here)]

    def outputs(self) -> list[NDArray[Any]]:
        ends = (self._place[self.layout.elements(self.schedule.end(rank))] for rank in range(self.schedule.world_size))
        results = [self._row(rank)[end] for rank, end in enumerate(ends)]
        if not self.schedule.promise.reduces:
            return results
        return [self.op.finish(result, self.schedule.world_size) for result in results]

    def _row(self, rank: int) -> NDArray[Any]:
        row: NDArray[Any] = self.data.reshape(self.schedule.world_size, -1)[rank]
        return row

    def do(self, index: int, step: Step) -> Load:
        """All transfers of a step at once: everything is read before anything is written."""
        which, chunk = expand(step)
        src, dst = self._cells(step.src[which], chunk), self._cells(step.dst[which], chunk)
        reduce = step.reduce[which]
        apart = step.send != "held"
        if apart and self.handed is None:
            self.handed = self.data.copy()
        source = self.handed if apart and self.handed is not None else self.data
        values = source[src]
        taken = None if self.holdings is None else self._take(index, src, handed=apart)
        for some in self._rounds(index, dst, reduce):
            if taken is not None:
                self._note(index, dst[some], taken[some], reduce[some])
            self._write(dst[some], values[some], reduce[some])
        if step.send == "handed" and self.handed is not None:
            self.handed[dst] = values
            if self.holdings is not None and taken is not None:
                self.holdings.hand(dst, taken)
        load = step_load(step, self.starts, self.data.itemsize, self.schedule.world_size)
        self.counter.add(load)
        return load

    def _cells(self, rank: NDArray[Any], chunk: NDArray[Any]) -> Cells:
        return np.asarray(rank.astype(np.int64) * self.schedule.num_chunks + chunk)

    def _write(self, cells: Cells, values: NDArray[Any], reduce: NDArray[np.bool_]) -> None:
        if reduce.all():
            self.data[cells] = self.op.combine(self.data[cells], values)
        elif not reduce.any():
            self.data[cells] = values
        else:
            self._write(cells[reduce], values[reduce], reduce[reduce])
            self._write(cells[~reduce], values[~reduce], reduce[~reduce])

    def _rounds(self, index: int, dst: Cells, reduce: NDArray[np.bool_]) -> Iterator[Any]:
        """Parts of a step in which no cell is written twice, in the order of the transfers."""
        order = np.arange(len(dst))
        self._marks[dst[::-1]] = order[::-1]  # the first to write a cell wins
        if (self._marks[dst] == order).all():
            yield slice(None)
            return
        self._find_clash(index, dst, reduce)
        left = order
        while len(left):
            self._marks[dst[left][::-1]] = left[::-1]
            first = self._marks[dst[left]] == left
            yield left[first]
            left = left[~first]

    def _find_clash(self, index: int, dst: Cells, reduce: NDArray[np.bool_]) -> None:
        cells, counts = np.unique(dst, return_counts=True)
        twice = np.isin(dst, cells[counts > 1])
        for cell in np.unique(dst[twice & ~reduce]):
            self._problem("clash", index, cell, "gets {chunk} from two ranks at once, and at least one is to be copied")

    def _take(self, index: int, src: Cells, *, handed: bool) -> NDArray[np.uint64]:
        assert self.holdings is not None
        taken = self.holdings.take(src, handed=handed)
        for cell in src[self.holdings.empty(taken)][:MANY]:
            self._problem("absent", index, cell, "sends {chunk}, which it does not have")
        return taken

    def _note(self, index: int, dst: Cells, taken: NDArray[np.uint64], reduce: NDArray[np.bool_]) -> None:
        assert self.holdings is not None
        for cell in dst[reduce & self.holdings.empty(self.holdings.take(dst, handed=False))][:MANY]:
            self._problem("absent", index, cell, "adds onto {chunk}, of which it has nothing")
        for cell in dst[reduce & self.holdings.overlap(dst, taken)][:MANY]:
            self._problem("double", index, cell, "adds to {chunk} what is in it already")
        self.holdings.put(dst, taken, reduce)

    def finish(self) -> list[Problem]:
        """Everything found, with what is wrong at the end."""
        if self.holdings is None:
            return self.problems
        for rank in range(self.schedule.world_size):
            ranges = self.schedule.end(rank)
            chunks = np.concatenate([np.arange(*each) for each in ranges]) if ranges else np.zeros(0, dtype=np.int64)
            for chunk in self.holdings.wrong(rank, chunks)[:MANY]:
                cell = rank * self.schedule.num_chunks + int(chunk)
                self._problem("end", -1, cell, "ends with {chunk} holding " + self.holdings.describe(cell))
        return self.problems

    def _problem(self, check: str, step: int, cell: Any, what: str) -> None:
        if len(self.problems) < MANY:
            rank, chunk = divmod(int(cell), self.schedule.num_chunks)
            where = f"step {step}: " if step >= 0 else ""
            self.problems.append(Problem(check, f"{where}rank {rank} {what.format(chunk=f'chunk {chunk}')}", step, rank, chunk))


def expand(step: Step) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranges of chunks one by one: for each chunk that travels, which transfer it belongs to, and its number."""
    lengths = (step.chunk_hi - step.chunk_lo).astype(np.int64)
    which = np.repeat(np.arange(len(step)), lengths)
    first = np.cumsum(lengths) - lengths
    return which, np.asarray(step.chunk_lo[which] + np.arange(len(which)) - first[which])
