"""Models, optimizers and tensors on every rank, compared by name: which part differs first, and on which ranks."""

from __future__ import annotations

from ..document import Printed
from ..errors import count, join_ranks
from ..plain import record


@record
class Part:
    """One parameter, buffer, or tensor of an optimizer: `sides` are ranks with equal ones, the largest side first.

    `what` differs: "" (nothing), "values", "shape", "dtype" or "presence". `difference` is the largest |difference| from the
    first side, None where it is not known; `of_sample` if it is that of evenly spaced elements only.
    """

    name: str
    kind: str = "parameter"
    dtype: str = ""
    shape: tuple[int, ...] = ()
    what: str = ""
    sides: tuple[tuple[int, ...], ...] = ()
    difference: float | None = None
    of_sample: bool = False
    detail: str = ""

    @property
    def same(self) -> bool:
        return not self.what


@record
class Replica:
    """One model, optimizer or tensor that all ranks hold under this name, part by part in its own order."""

    name: str
    kind: str
    type: str
    parts: tuple[Part, ...] = ()
    left_out: str = ""

    @property
    def differing(self) -> tuple[Part, ...]:
        """The parts that differ, in their order; parameters before buffers."""
        return tuple(sorted((part for part in self.parts if not part.same), key=lambda part: part.kind == "buffer"))

    @property
    def same(self) -> bool:
        return not self.differing


@record
class Replicas(Printed):
    """All of them. `partly`: what only some ranks hold, by name."""

    world_size: int
    compared: tuple[Replica, ...] = ()
    partly: tuple[tuple[str, tuple[int, ...]], ...] = ()
    detailed: bool = False

    @property
    def same(self) -> bool:
        return all(replica.same for replica in self.compared)

    def __getitem__(self, name: str) -> Replica:
        """The one of this name; KeyError if it was not compared."""
        for replica in self.compared:
            if replica.name == name:
                return replica
        raise KeyError(name)


def who(sides: tuple[tuple[int, ...], ...]) -> str:
    """
    >>> who(((0, 1), (2,)))
    'on rank 2; ranks 0 and 1 agree'
    >>> who(((0,), (1,))), who(((0,), (1,), (2,))), who(((0, 1), (2, 3)))
    ('between rank 0 and rank 1', 'between all ranks', 'between ranks 0 and 1 on one side, ranks 2 and 3 on the other')
    """
    first, *others = sides
    if len(first) > sum(map(len, others)) and len(others) == 1:
        return f"on {join_ranks(list(others[0]))}; {join_ranks(list(first))} agree"
    if all(len(side) == 1 for side in sides):
        return "between all ranks" if others[1:] else f"between {join_ranks(list(first))} and {join_ranks(list(others[0]))}"
    if len(sides) == 2:
        return f"between {join_ranks(list(first))} on one side, {join_ranks(list(others[0]))} on the other"
    odd = sorted(rank for side in others for rank in side)
    return f"on {join_ranks(odd)}; {join_ranks(list(first))} agree"


def sentence(replica: Replica) -> str:
    """What differs first, in words: "fc.weight differs on rank 2; ranks 0 and 1 agree: max |difference| 0.12"."""
    found = replica.differing
    if not found:
        return "the same on all ranks" + (f" ({count(len(replica.parts), 'part')})" if len(replica.parts) != 1 else "")
    first = found[0]
    name = first.name or replica.name
    about = "" if first.what == "values" else f"the {first.what} of "
    size = ""
    if first.difference is not None:
        size = f": max |difference| {'at least ' if first.of_sample else ''}{first.difference:.2g}"
    detail = f" ({first.detail})" if first.detail else ""
    return f"{about}{name} differs {who(first.sides)}{size}{detail}"
