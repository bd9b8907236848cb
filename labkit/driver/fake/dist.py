"""`torch.distributed` in a fake rank, and a call of it on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...faults._forms import DATA, arguments, is_async
from ...wire import Call, CallSite
from .tensors import REDUCE_OPS, Tensor

if TYPE_CHECKING:
    from .rank import FakeRank

P2P = frozenset({"send", "recv", "isend", "irecv"})
COLLECTIVES = frozenset(
    "all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter_tensor barrier".split()
)
ROOTS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst", "send": "dst", "recv": "src"}
REDUCES = frozenset({"all_reduce", "reduce", "reduce_scatter_tensor"})
RECORDED = {"isend": "send", "irecv": "recv"}


@dataclass(frozen=True)
class Group:
    """Some of the ranks."""

    name: str
    ranks: tuple[int, ...]


@dataclass
class Issued:
    """A call as the cell made it; the PendingCall that faults see."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    site: CallSite | None
    number: int
    cell: int

    @property
    def name(self) -> str:
        return self.op

    @property
    def given(self) -> dict[str, Any]:
        return arguments(self)

    @property
    def is_async(self) -> bool:
        return is_async(self)

    def tensors(self) -> list[Tensor]:
        """What goes in: one tensor of each data argument, those that are not lists first."""
        values = [value for name, value in self.given.items() if name in DATA]
        return [value for value in values if isinstance(value, Tensor)]

    def record(self, index: int, seq: int, group: Group, now_s: float) -> Call:
        """The call as the beacon would have it."""
        op = RECORDED.get(self.op, self.op)
        given = self.given
        first = given.get("input_tensor", given.get("input", next(iter(self.tensors()), None)))
        root: int | None = -1
        if op in ROOTS:
            place = given.get("group_" + ROOTS[op])
            root = given.get(ROOTS[op], 0) if place is None else group.ranks[place]
        reduce_op = str(given.get("op") or "SUM").lower() if op in REDUCES else ""
        if root is None:
            root = 0
        return Call(
            index, seq, op, group.name, group.ranks, tuple(first.shape) if first is not None else (),
            first.dtype.name if first is not None else "", int(first.nbytes) if first is not None else 0, reduce_op,
            root, self.is_async, self.site, self.cell, "issued", now_s,
        )  # fmt: skip


class FakeDist:
    """The functions, each a call of its rank."""

    __name__ = "torch.distributed"
    ReduceOp = REDUCE_OPS

    def __init__(self, rank: FakeRank) -> None:
        self._rank = rank
        self._made = 0

    def get_rank(self, group: Group | None = None) -> int:
        return self._rank.rank if group is None else group.ranks.index(self._rank.rank)

    def get_world_size(self, group: Group | None = None) -> int:
        return self._rank.world_size if group is None else len(group.ranks)

    def is_initialized(self) -> bool:
        return True

    def new_group(self, ranks: Any = None, *args: Any, **kwargs: Any) -> Group:
        members = tuple(range(self._rank.world_size)) if ranks is None else tuple(sorted(ranks))
        self._made += 1
        return Group(f"group {self._made} ({', '.join(map(str, members))})", members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in COLLECTIVES | P2P:
            raise UsageError(f"the fake torch.distributed has no {name}", hint="try this cell in a real world")
        return lambda *args, **kwargs: self._rank.call(name, args, kwargs)
