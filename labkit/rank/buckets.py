"""Which of DDP's gradient buckets an all-reduce is: C++ makes it in the backward, so no frame tells.

torch's reducer is told all that is needed: the parameters' names and how they are put into buckets when it is made, and
the start of a step when a forward has ended. After the first step torch may put the parameters into other buckets, once.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from torch.distributed import Reducer

from ..phrases import few

_SHOWN = 3


class _Plan:
    """One reducer: its buckets, its step, and the bucket that comes next."""

    def __init__(self, parameters: Sequence[Any], buckets: Sequence[Sequence[int]], names: dict[int, str]) -> None:
        self.names = {id(parameter): names.get(at, "").lstrip(".") for at, parameter in enumerate(parameters)}
        self.buckets = [[parameters[at] for at in bucket] for bucket in buckets]
        self.step = self.next = 0

    def begin(self, reducer: Any) -> None:
        self.step, self.next = self.step + 1, 0
        if self.step == 2 and all(parameter.device.type == "cpu" for bucket in self.buckets for parameter in bucket):
            # torch gives the parameters of a bucket with a copy of its memory, which costs little on the CPU alone
            self.buckets = [bucket.parameters() for bucket in reducer._get_zeros_like_grad_buckets()]

    def matches(self, num_elements: int) -> bool:
        return self.next < len(self.buckets) and sum(p.numel() for p in self.buckets[self.next]) == num_elements


class Buckets:
    """The reducers of this rank.

    `install` wraps two methods of torch's class; each DDP makes one object of it.
    """

    def __init__(self) -> None:
        self._plans: weakref.WeakKeyDictionary[Any, _Plan] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """See every reducer that is made from now on."""
        make, prepare = Reducer.__init__, Reducer.prepare_for_backward

        def made(reducer: Any, parameters: Sequence[Any], buckets: Sequence[Sequence[int]], *args: Any, **kwargs: Any) -> None:
            make(reducer, parameters, buckets, *args, **kwargs)
            names = next((each for each in (*args, *kwargs.values()) if isinstance(each, dict)), {})
            self._plans[reducer] = _Plan(parameters, buckets, names)

        def prepared(reducer: Any, *args: Any) -> None:
            prepare(reducer, *args)
            if reducer in self._plans:
                self._plans[reducer].begin(reducer)

        Reducer.__init__, Reducer.prepare_for_backward = made, prepared

    def part(self, num_elements: int) -> tuple[str, int]:
        """What an all-reduce of C++ is, and its step: ("DDP's gradient bucket 0 (0.weight, 0.bias)", 3), or ("", 0)."""
        for plan in sorted(self._plans.values(), key=lambda plan: -plan.step):
            if plan.matches(num_elements):
                found = [plan.names.get(id(parameter), "") for parameter in plan.buckets[plan.next]]
                plan.next += 1
                return f"DDP's gradient bucket {plan.next - 1} ({few(found, _SHOWN)})", plan.step
        return "", 0
