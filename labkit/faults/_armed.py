"""What stands between a fault and the rank it is armed in: the calls it sees, and how it may act on them.

The tap hands every call of `torch.distributed` to the armed interceptors before it is issued; an
interceptor lets it through, changes it, holds it back, or does something else instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..wire import CallSite


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


class Hands(Protocol):
    """What a fault may know of its rank, and the one thing it must tell."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def fired(self) -> None:
        """Note, in a place that outlives this process, that the fault does its work now."""


class Interceptor:
    """Lets every call through. A fault overrides what it needs.

    `in_schedules`: it is handed the moves of a schedule too, as calls "send", "recv" and "sendrecv" with number `move`.
    """

    in_schedules = False

    def around(self, call: PendingCall, issue: Issue) -> Any:
        """Called instead of issuing `call`; whatever it returns is what the rank's code gets."""
        return issue(call)

    def end_of_cell(self) -> None:
        """Called when the cell's code has ended; the last chance to issue what was held back."""


class OneShot(Interceptor):
    """Strikes once: at the first call that is number `at` or later and that the fault can apply to."""

    def __init__(self, hands: Hands, *, at: int = 1) -> None:
        self.hands, self.at = hands, at
        self.spent = False

    def applies(self, call: PendingCall) -> bool:
        """Whether the fault can do its work on this call; if not it waits for the next one."""
        return True

    def strike(self, call: PendingCall, issue: Issue) -> Any:
        """The fault's work; `hands.fired()` has been called."""
        raise NotImplementedError

    def around(self, call: PendingCall, issue: Issue) -> Any:
        if self.spent or call.number < self.at or not self.applies(call):
            return issue(call)
        self.spent = True  # before anything else: what strikes may call in here again
        self.hands.fired()
        return self.strike(call, issue)
