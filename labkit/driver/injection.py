"""A fault at work in a world: armed on a rank, watched, and taken out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..faults import Expectation, Fault
from ..wire import CellResult, Injection


class ActiveInjection:
    """What `world.inject` returns: armed already; as a context manager, taken out at the end of the block.

    `fired(rank)` counts the faults that have fired in a rank's process, `disarm(rank)` takes them out of it.
    """

    def __init__(
        self, fault: Fault, rank: int, params: dict[str, Any], mode: str, *, fired: Callable[[int], int],
        disarm: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.fault, self.rank, self.params = fault, rank, params
        self._count_fired, self._disarm = fired, disarm
        self._fired_before = fired(rank)
        self._expectation = fault.expect[mode]  # what was declared for the mode it was armed in
        self._fired = 0
        self._verdict = ""
        self.active = True

    @property
    def record(self) -> Injection:
        """The injection as it stands: how often it has fired, and which verdict named it."""
        return Injection(
            fault=self.fault.name, rank=self.rank, title=self.fault.title, params=self.params, fired=self._count(),
            expected=self._expectation.codes, ending=self._expectation.ending, verdict=self._verdict, active=self.active,
        )  # fmt: skip

    def _count(self) -> int:
        if self.active:
            self._fired = max(self._fired, self._count_fired(self.rank) - self._fired_before)
        return self._fired

    def expect(self, expectation: Expectation) -> None:
        """It fired where something else is to be seen than in a cell."""
        self._expectation = expectation

    def observe(self, result: CellResult) -> None:
        """A cell has ended: note whether the fault fired in it and what was said of it."""
        if self.active and self._count() and not self._verdict and result.diagnosis and result.diagnosis.verdict:
            self._verdict = result.diagnosis.verdict.code

    def remove(self) -> None:
        """Take the fault out, if the rank can take a request."""
        if self.active:
            self._count()
            self.active = False
            self._disarm(self.rank)

    def __enter__(self) -> ActiveInjection:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
