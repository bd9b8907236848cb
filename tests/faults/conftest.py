"""A fake rank for the faults: a tape of what happened, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from labkit.wire import CallSite


@dataclasses.dataclass
class Pending:
    """The tap's PendingCall, as the architecture describes it."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    site: CallSite | None
    number: int
    cell: int


class Rank:
    """FaultContext, and a tap whose `issue` only notes the call; `answer` makes what the real function returns."""

    def __init__(self, rank: int = 1, world_size: int = 4) -> None:
        self.rank, self.world_size = rank, world_size
        self.tape: list[str] = []
        self.issued: list[Pending] = []
        self.answer: Callable[[Pending], Any] = lambda call: None
        self._number = 0

    def restart(self) -> None:
        """The next call is number 1."""
        self._number = 0

    def fired(self) -> None:
        self.tape.append("fired")

    def call(self, op: str, /, *args: Any, **kwargs: Any) -> Pending:
        self._number += 1
        return Pending(op, args, kwargs, CallSite("cell 1", self._number), self._number, 1)

    def issue(self, call: Pending) -> Any:
        self.tape.append(call.op)
        self.issued.append(call)
        return self.answer(call)


@pytest.fixture
def rank() -> Rank:
    return Rank()
