"""Holding a call back until the next one has gone first: what the two swaps share."""

from __future__ import annotations

from typing import Any

from ._forms import is_async
from .base import FaultContext, Interceptor, Issue, PendingCall


class HeldCall:
    """A call that was made and not issued. To the caller of an async one it is the Work."""

    def __init__(self, call: PendingCall, issue: Issue) -> None:
        self.call, self._issue = call, issue
        self.waiting = True
        self._result: Any = None
        self._error: BaseException | None = None

    def release(self) -> None:
        """Issue it now, with the line it was made at; once."""
        if self.waiting:
            self.waiting = False
            self._result = self._issue(self.call)

    def drop(self, error: BaseException) -> None:
        """The call that went first failed, so this one must not be issued."""
        self.waiting = False
        self._error = error

    def wait(self, timeout: Any = None) -> bool:
        self.release()
        if self._error is not None:
            raise RuntimeError(f"{self.call.op} was held back and never issued: {self._error}")
        if self._result is None:
            return True
        return bool(self._result.wait() if timeout is None else self._result.wait(timeout))

    def is_completed(self) -> bool:
        return not self.waiting and (self._result is None or bool(self._result.is_completed()))

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None and (self._result is None or bool(self._result.is_success()))

    def exception(self) -> Any:
        return self._error if self._result is None else self._result.exception()

    def get_future(self) -> Any:
        self.release()
        return self._result.get_future()


class Swap(Interceptor):
    """Holds one call back and lets the next one go first.

    A synchronous call counts as the fault's work from the moment it is held: its caller already goes on
    with a tensor that nothing was done to. An asynchronous one counts when it is overtaken; if its caller
    waits for it before making another call nothing was swapped, and the fault waits for the next pair.
    """

    def __init__(self, context: FaultContext, *, at: int = 1) -> None:
        self.context, self.at = context, at
        self._held: HeldCall | None = None
        self._spent = False

    def may_hold(self, call: PendingCall) -> bool:
        """Whether this call can be the one held back."""
        raise NotImplementedError

    def may_overtake(self, held: PendingCall, call: PendingCall) -> bool:
        """Whether `call` may go first; if not, both go in their right order."""
        raise NotImplementedError

    def around(self, call: PendingCall, issue: Issue) -> Any:
        held, self._held = self._held, None
        if held is not None and held.waiting and held.call.cell != call.cell:
            held.drop(RuntimeError("its cell ended with an error"))  # nobody waits for it any more
        if held is not None and held.waiting:
            if not self.may_overtake(held.call, call):
                held.release()
            else:
                self._fire()
                try:
                    result = issue(call)
                except BaseException as error:
                    held.drop(error)
                    raise
                held.release()
                return result
        if self._spent or call.number < self.at or not self.may_hold(call):
            return issue(call)
        self._held = HeldCall(call, issue)
        if is_async(call):
            return self._held
        self._fire()
        return None

    def end_of_cell(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _fire(self) -> None:
        if not self._spent:
            self._spent = True
            self.context.fired()
