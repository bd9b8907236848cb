"""What a fault is: texts, parameters, what must then be seen, and the interceptor that does its work.

Nothing here imports torch: the notebook reads the catalogue too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UsageError
from ..registry import Registry, unknown
from ._armed import Hands, Interceptor, Issue, LeaveCell, OneShot, PendingCall, PlannedFault

__all__ = [
    "AT", "ENDINGS", "FAULTS", "MODES", "SIDES", "Expectation", "Fault", "Hands", "Interceptor", "Issue",
    "LeaveCell", "OneShot", "Param", "PendingCall", "PlannedFault", "declare",
]  # fmt: skip

ENDINGS = ("hang", "abort", "error", "silent", "slow", "none")
MODES = ("raw", "safe")
SIDES = ("rank", "host")


@dataclasses.dataclass(frozen=True)
class Param:
    """One parameter of a fault: its default, its range or choices, and what it means."""

    default: Any
    text: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value in the default's type; UsageError if it can't be."""
        if self.choices:
            if value not in self.choices:
                raise UsageError(f"{name} can't be {value!r}", hint=f"choose one of: {', '.join(self.choices)}", value=value)
            return value
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            kind = "a whole number" if whole else "a number"
            raise UsageError(f"{name} must be {kind}, not {value!r}", hint=f"for example {name}={self.default}", value=value)
        low_ok = self.low is None or value >= self.low
        high_ok = self.high is None or value <= self.high
        if not (low_ok and high_ok):  # a NaN fails here too
            bounds = f"at least {self.low:g}" if self.low is not None else ""
            if self.high is not None:
                bounds += f"{' and ' if bounds else ''}at most {self.high:g}"
            raise UsageError(f"{name}={value} is out of range", hint=f"it must be {bounds}", value=value)
        return value if whole else float(value)


AT = Param(1, "which call of the cell (or move of the schedule) the fault waits for, counted from 1", low=1)


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What must be seen: the ending, and the verdict codes that may name it, the likeliest first.

    Endings: "hang" (ranks wait for good), "abort" (a process dies), "error" (an ordinary exception),
    "silent" (wrong numbers and no word), "slow" (right, but late), "none".
    """

    ending: str
    codes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Fault:
    """A named thing that goes wrong on one rank.

    `teaches` says what it is in real life, how it looks and why; `cure` how to mend the code.
    `demo` is the source of a rank cell: right without the fault, and with it the fault shows.
    `replaces_rank`: a rank's process may not survive it, so its variables may be lost. `in_schedule` is what is seen when
    it fires in a move of `world.run_schedule`; without it the fault has nothing to do there, and the run says so.
    """

    name: str
    title: str
    teaches: str
    cure: str
    demo: str
    expect: Mapping[str, Expectation]
    make: Callable[..., Interceptor]
    params: Mapping[str, Param] = dataclasses.field(default_factory=dict)
    side: str = "rank"
    replaces_rank: bool = False
    in_schedule: Expectation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", {"at": AT, **self.params})

    @property
    def defaults(self) -> dict[str, Any]:
        """Every parameter with its default."""
        return {name: param.default for name, param in self.params.items()}

    def check(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, checked and filled up with the defaults; UsageError says what to do instead."""
        for name in params:
            if name not in self.params:
                raise unknown(f"{self.name} parameter", name, self.params)
        return {name: param.check(name, params.get(name, param.default)) for name, param in self.params.items()}

    def arm(self, hands: Hands, **params: Any) -> Interceptor:
        """An interceptor that does the fault's work once; call it in the rank."""
        made = self.make(hands, **self.check(params))
        made.in_schedules = self.in_schedule is not None
        return made


FAULTS: Registry[Fault] = Registry("fault", "labkit.faults")


def declare(fault: Fault) -> Fault:
    """Put a fault into the catalogue under its own name."""
    return FAULTS.add(fault.name, fault)
