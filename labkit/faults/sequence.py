"""A rank that makes another sequence of calls: one too many, one too few, or two in the wrong order."""

from __future__ import annotations

from typing import Any

from ._calls import DoneWork, arguments, is_async
from .base import Expectation, Fault, FaultContext, Interceptor, Issue, OneShot, PendingCall, declare


class ExtraCollective(OneShot):
    """Issues the call twice; the caller gets the second result."""

    def act(self, call: PendingCall, issue: Issue) -> Any:
        self._first = issue(call)  # kept: an asynchronous call needs its Work alive until it is done
        return issue(call)


declare(
    Fault(
        name="extra-collective",
        title="One rank makes a collective once too often",
        teaches=(
            "Collectives are matched by counting, so one call more on one rank moves everything after it by one. "
            "Here one rank makes the same call twice, as code does that averages a metric under `if rank == 0`, or retries a "
            "step on one rank only. "
            "Its extra call meets the others' next call, which has other data: the sums are wrong and no error is raised. "
            "At its last call the rank is alone, because the others have finished, and it waits for good."
        ),
        cure=(
            "Take collectives out of `if rank == 0`: let all ranks make the call and let rank 0 alone print the result; retry a "
            "step on all ranks or on none."
        ),
        demo=(
            "grad = torch.full((4,), float(rank + 1))\n"
            "loss = torch.full((4,), 100.0 * (rank + 1))\n"
            "dist.all_reduce(grad)\n"
            "dist.all_reduce(loss)\n"
            "grad[0].item(), loss[0].item()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK009", "LK007")),
            "safe": Expectation("error", ("LK014", "LK009", "LK008")),
        },
        make=ExtraCollective,
        in_schedule=Expectation("hang", ("LK009",)),
    )
)


class SkippedCollective(OneShot):
    """Returns from the call without issuing it, with what its caller expects to get."""

    def applies(self, call: PendingCall) -> bool:
        return call.op != "batch_isend_irecv"  # what it returns can't be made up

    def act(self, call: PendingCall, issue: Issue) -> Any:
        if call.op == "recv":
            given = arguments(call)
            source = given.get("src", given.get("group_src"))
            return 0 if source is None else source
        return DoneWork() if is_async(call) else None


declare(
    Fault(
        name="skipped-collective",
        title="One rank leaves a collective out",
        teaches=(
            "Collectives are matched by counting: call number one with call number one, on every rank. "
            "Here one rank leaves one call out, as an `if` around a collective does when its condition is not the same "
            "everywhere (a loss that is NaN on one rank only, a log that only rank 0 writes). "
            "From then on it is one call ahead of the others, so its second call is added to their first one, and the numbers "
            "are wrong, with no error. "
            "At the end the others wait in a call that this rank never makes: the hang shows some lines after the line that "
            "caused it."
        ),
        cure=(
            "Call the collective on every rank, and decide afterwards what to do with the result; if the decision itself "
            "depends on data, agree on it first with one all_reduce of a flag."
        ),
        demo=(
            "a, b, c = (torch.full((4,), float(10**step * (rank + 1))) for step in range(3))\n"
            "dist.all_reduce(a)\n"
            "dist.all_reduce(b)\n"
            "dist.all_reduce(c)\n"
            "[t[0].item() for t in (a, b, c)]\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK009", "LK007")),
            "safe": Expectation("error", ("LK014", "LK009", "LK008")),
        },
        make=SkippedCollective,
        in_schedule=Expectation("hang", ("LK009", "LK007")),  # the last move of all left out is to leave
    )
)


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


class SwappedOrder(Swap):
    """Holds the call back and lets whatever comes next go first.

    Two calls that look alike give the silent ending of swapped-twins, two sizes of one call the abort of
    shape-mismatch; the hang needs two different operations, as in the demo.
    """

    def may_hold(self, call: PendingCall) -> bool:
        return True

    def may_overtake(self, held: PendingCall, call: PendingCall) -> bool:
        return True


declare(
    Fault(
        name="swapped-order",
        title="Two collectives change places on one rank",
        teaches=(
            "Collectives are matched by their order and not by name: the first call of one rank meets the first call of every "
            "other rank, the second meets the second, and so on. "
            "Here one rank makes its two calls in the other order, as code does that walks over a set, a dict or a folder "
            "whose order is not the same everywhere. "
            "So three ranks wait in an all_reduce that the fourth has not begun, and the fourth waits in a broadcast that "
            "nobody else has begun. "
            "No rank is wrong on its own, so no error is raised: all of them wait for good, in a deadlock."
        ),
        cure=(
            "Make every rank issue the same collectives in the same order: sort whatever you iterate over, and let no branch "
            "that depends on the rank decide which collective comes first."
        ),
        demo=(
            "grad = torch.full((4,), float(rank + 1))\n"
            "scale = torch.full((4,), 10.0 * (rank + 1))\n"
            "dist.all_reduce(grad)\n"
            "dist.broadcast(scale, src=0)\n"
            "(grad * scale).tolist()\n"
        ),
        expect={
            "raw": Expectation("hang", ("LK004",)),
            "safe": Expectation("error", ("LK014", "LK004")),
        },
        make=SwappedOrder,
    )
)


class SwappedTwins(Swap):
    """Holds an all_reduce back until one on another tensor of the same shape and dtype has gone first."""

    def may_hold(self, call: PendingCall) -> bool:
        return call.op == "all_reduce"

    def may_overtake(self, held: PendingCall, call: PendingCall) -> bool:
        if call.op != "all_reduce":
            return False
        first, second = arguments(held), arguments(call)
        return (
            first["tensor"] is not second["tensor"]
            and _looks(first["tensor"]) == _looks(second["tensor"])
            and first.get("op") == second.get("op")
            and first.get("group") is second.get("group")
        )


def _looks(tensor: Any) -> tuple[Any, Any]:
    return tensor.shape, tensor.dtype


declare(
    Fault(
        name="swapped-twins",
        title="Two all_reduces of the same shape change places on one rank",
        teaches=(
            "An all_reduce carries numbers and no label, so two calls on tensors of the same shape can't be told apart by the "
            "library. "
            "Here one rank reduces its second tensor first, as happens when gradients are reduced in the order in which a dict, "
            "a hook or a thread happens to deliver them. "
            "The other ranks add that rank's second tensor to their first one: every call succeeds, the loss goes on falling, "
            "and the numbers are wrong. "
            "No timeout and no debug level of torch sees it; only the line each call comes from, or a check of the values, does."
        ),
        cure=(
            "Reduce in an order that every rank derives from the same list, for example sorted parameter names, or put the "
            "tensors into one flat buffer and reduce that once."
        ),
        demo=(
            "weight_grad = torch.full((4,), float(rank + 1))\n"
            "bias_grad = torch.full((4,), 100.0 * (rank + 1))\n"
            "dist.all_reduce(weight_grad)\n"
            "dist.all_reduce(bias_grad)\n"
            "weight_grad.tolist(), bias_grad.tolist()\n"
        ),
        expect={
            "raw": Expectation("silent", ("LK008",)),
            "safe": Expectation("error", ("LK014", "LK008")),
        },
        make=SwappedTwins,
    )
)
