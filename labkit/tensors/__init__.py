"""A variable on every rank, as records: what a cell of a tensor grid shows, and no more than that travels."""

from __future__ import annotations

from ..document import Printed
from ..plain import record


@record
class TensorSample:
    """One rank's tensor: all values if few, else evenly spaced ones (`indices` into the flat tensor).

    `before` holds the same elements as they were when the tensor last entered a collective.
    """

    rank: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    num_bytes: int
    values: tuple[float, ...]
    indices: tuple[int, ...]
    before: tuple[float, ...] | None = None
    op: str = ""
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    num_nan: int = 0
    digest: str = ""

    @property
    def num_elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def sampled(self) -> bool:
        return len(self.values) < self.num_elements


@record
class TensorTable(Printed):
    """One variable on every rank: rank x element, before and after the last collective."""

    name: str
    samples: tuple[TensorSample, ...]
    missing: tuple[int, ...] = ()

    @property
    def identical(self) -> bool:
        """Bitwise the same on every rank that has it (identical is not yet correct)."""
        return len({(s.digest, s.shape, s.dtype) for s in self.samples}) <= 1
