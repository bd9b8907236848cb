"""The reduce ops, as numpy functions, and which dtypes they make sense for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..registry import unknown


@dataclass(frozen=True)
class ReduceOp:
    """`combine` puts two contributions together; `kinds` are numpy's letters of the dtypes it makes sense for.

    AVG adds, and every rank divides once at the very end, so that all divide the same sum.
    """

    name: str
    combine: np.ufunc
    kinds: str
    divides: bool = False

    def check(self, dtype: np.dtype[Any]) -> None:
        """UsageError for a dtype the op makes no sense for."""
        if dtype.kind not in self.kinds:
            hint = "use SUM, or a dtype of floats" if self.divides else "use a dtype of numbers"
            raise UsageError(f"{self.name} of {dtype} is not defined", hint=hint)

    def finish(self, total: NDArray[Any], world_size: int) -> NDArray[Any]:
        """What is done once, when everything has come together."""
        return (total / total.dtype.type(world_size)).astype(total.dtype, copy=False) if self.divides else total


OPS: dict[str, ReduceOp] = {
    each.name: each
    for each in (
        ReduceOp("SUM", np.add, "iufc"),
        ReduceOp("AVG", np.add, "fc", divides=True),
        ReduceOp("MAX", np.maximum, "biuf"),
        ReduceOp("MIN", np.minimum, "biuf"),
        ReduceOp("PRODUCT", np.multiply, "iufc"),
    )
}


def reduce_op(op: Any) -> ReduceOp:
    """The op of that name, in upper or lower case; torch's `ReduceOp.SUM` has its name.

    >>> reduce_op("sum").combine(2, 3)
    np.int64(5)
    """
    name = op if isinstance(op, str) else getattr(op, "name", None)
    if not isinstance(name, str) or name.upper() not in OPS:
        raise unknown("reduce op", op, OPS)
    return OPS[name.upper()]
