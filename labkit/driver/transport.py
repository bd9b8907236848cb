"""What the world needs of whatever carries its requests: ipyparallel, or a test's script (`scripted`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import RankError
from ..notes import Finding
from ..places import cell_name
from ..wire import CodeError, Outcome, Stream

OnOutput = Callable[[int, str, str], None]


@dataclass
class Reply:
    """A rank's answer: the outcome, the learner's variable names, raw buffers, and what it has found in its cell."""

    outcome: Outcome
    names: tuple[str, ...] = ()
    buffers: list[bytes] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()


class Pending:
    """A request under way on one rank; `output` grows while it runs."""

    def __init__(self, rank: int, op: str, cell: int = 0, on_output: OnOutput | None = None) -> None:
        self.rank, self.op, self.cell = rank, op, cell
        self.future: Future[Reply] = Future()
        self.output: list[Stream] = []
        self.asked_s = time.monotonic()
        self.closed = False  # its answer no longer counts as the cell's outcome
        self._on_output = on_output

    def add_output(self, name: str, text: str) -> None:
        """Called from the transport's thread for each printed piece."""
        if self.output and self.output[-1].name == name:
            self.output[-1] = Stream(name, self.output[-1].text + text)
        else:
            self.output.append(Stream(name, text))
        if self._on_output is not None:
            self._on_output(self.rank, name, text)

    def resolve(self, reply: Reply) -> None:
        """Give the answer; a second one (a late reply of a rank that was given up) is dropped."""
        with suppress(InvalidStateError):  # a reply and the end of the rank may come at once, from two threads
            self.future.set_result(reply)

    def fail(self, status: str, error: CodeError | None = None) -> None:
        """The rank will not answer: "dead" or "late"."""
        self.resolve(Reply(Outcome(self.rank, status, output=tuple(self.output), error=error)))

    @property
    def what(self) -> str:
        """What the rank is asked for, as people say it."""
        return cell_name(self.cell) if self.op == "cell" else self.op

    @property
    def done(self) -> bool:
        return self.future.done()


class ControlError(RankError):
    """A control op raised on the rank: its control thread answers, with an error that is labkit's own."""


def answered(future: Future[Any]) -> bool:
    """Whether the rank's control thread has sent anything back, be it an error."""
    return future.done() and (future.exception() is None or isinstance(future.exception(), ControlError))


def value_of(future: Future[Any]) -> Any:
    """The value that a control thread has sent back; None if it sent an error, or nothing yet."""
    return future.result() if future.done() and future.exception() is None else None


def errors_of(asked: Mapping[int, Future[Any]]) -> dict[int, ControlError]:
    """The errors that control threads have sent back, by rank."""
    found = {rank: future.exception() for rank, future in asked.items() if future.done()}
    return {rank: error for rank, error in found.items() if isinstance(error, ControlError)}


class Transport(Protocol):
    """Carries requests to ranks. `request` runs on the rank's main thread, `control` beside it."""

    def wait_for_ranks(self, ranks: Sequence[int], timeout_s: float) -> None:
        """Return when all of `ranks` can be reached; raise DeadlineExceeded naming those that can't."""
        ...

    def request(
        self,
        rank: int,
        op: str,
        payload: dict[str, Any],
        *,
        request_id: int = 0,
        buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> Pending:
        """Send a request; `request_id` is its number, the same for all ranks that get it."""
        ...

    def control(self, rank: int, op: str, payload: dict[str, Any]) -> Future[Any]:
        """A plain value, from the rank's control thread; fails with ControlError if the op raised, RankDead without the rank."""
        ...

    def rank_gone(self, rank: int) -> None:
        """The rank's process has ended: fail what is pending on it, and let its id be used again."""
        ...

    def wait_gone(self, rank: int, timeout_s: float) -> None:
        """Return when the rank's id is free again."""
        ...

    def close(self) -> None: ...
