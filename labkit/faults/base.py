"""What a fault is: texts, parameters, what must be seen, and the interceptor that does its work in the rank.

The tap context every call of `torch.distributed` to the armed interceptors before it is issued; an interceptor lets it through,
changes it, holds it back, or does something else instead. Nothing here imports torch: the notebook reads the catalogue too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..errors import UsageError
from ..registry import Registry, unknown
from ..wire import CallSite

ENDINGS = ("hang", "abort", "error", "silent", "slow", "none")


class PlannedFault(RuntimeError):
    """The exception of the fault rank-raises; to the rank it is a RuntimeError like any other."""


class LeaveCell(BaseException):
    """Ends the rank's cell here, quietly: whoever runs the cell treats it as its normal end."""


class PendingCall(Protocol):
    """A call of `torch.distributed` that was made and not yet issued; a dataclass, so `changed` can copy it."""

    @property
    def op(self) -> str: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> dict[str, Any]: ...
    @property
    def site(self) -> CallSite | None: ...
    @property
    def number(self) -> int: ...
    @property
    def cell(self) -> int: ...


Issue = Callable[[Any], Any]
"""Issues a PendingCall, through the remaining interceptors, and returns what the real function returns."""


class FaultContext(Protocol):
    """What a fault knows of its rank, and the one thing it must report."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def fired(self) -> None:
        """Note that the fault acts now, in a place that outlives this process."""


class Interceptor:
    """Lets every call through. A fault overrides what it needs.

    `in_schedules`: it is handed the moves of a schedule too, as calls "send", "recv" and "sendrecv" with number `move`.
    `in_makings`: it is handed the calls of new_group too, numbered by themselves.
    """

    in_schedules = False
    in_makings = False

    def around(self, call: PendingCall, issue: Issue) -> Any:
        """Called instead of issuing `call`; whatever it returns is what the rank's code gets."""
        return issue(call)

    def end_of_cell(self) -> None:
        """Called when the cell's code has ended; the last chance to issue what was held back."""


class OneShot(Interceptor):
    """Acts once: at the first call that is number `at` or later and that the fault can apply to.

    `params` holds the fault's other parameters by name, checked and with their defaults.
    """

    def __init__(self, context: FaultContext, *, at: int = 1, **params: Any) -> None:
        self.context, self.at, self.params = context, at, params
        self.done = False

    def applies(self, call: PendingCall) -> bool:
        """Whether the fault can do its work on this call; if not it waits for the next one."""
        return True

    def act(self, call: PendingCall, issue: Issue) -> Any:
        """The fault's work; `context.fired()` has been called."""
        raise NotImplementedError

    def around(self, call: PendingCall, issue: Issue) -> Any:
        if self.done or call.number < self.at or not self.applies(call):
            return issue(call)
        self.done = True  # before anything else: what acts may call in here again
        self.context.fired()
        return self.act(call, issue)


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
    `replaces_rank`: a rank's process may not survive it, and then its variables are those from before
    the cell. `in_schedule` is what is seen when
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

    def arm(self, context: FaultContext, **params: Any) -> Interceptor:
        """An interceptor that does the fault's work once; call it in the rank."""
        made = self.make(context, **self.check(params))
        made.in_schedules = self.in_schedule is not None
        return made


FAULTS: Registry[Fault] = Registry("fault", "labkit.faults")


def declare(fault: Fault) -> Fault:
    """Put a fault into the catalogue under its own name."""
    return FAULTS.add(fault.name, fault)
