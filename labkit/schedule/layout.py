"""Where each chunk lies in a flat tensor.

Chunks never pad: when the size does not divide, the first chunks are one element longer, so a tensor with
fewer elements than chunks leaves the last ones empty. All ranks compute the same layout, so nobody sends it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..plain import record
from .checks import check_int


@record
class Layout:
    """`num_rows` rows of `num_elements` elements, each row cut into `num_chunks` chunks; chunks count through the rows.

    Only all-to-all has more rows than one: row r is what rank r starts with.

    >>> Layout(10, 4).sizes().tolist(), Layout(10, 4).span(1, 3), Layout(1, 3).sizes().tolist()
    ([3, 3, 2, 2], (3, 8), [1, 0, 0])
    """

    num_elements: int
    num_chunks: int
    num_rows: int = 1

    def __post_init__(self) -> None:
        check_int("num_elements", self.num_elements, 0)
        check_int("num_chunks", self.num_chunks)
        check_int("num_rows", self.num_rows)

    def start(self, chunk: int) -> int:
        """The first element of a chunk; for one past the last chunk, the end of the tensor."""
        row, column = divmod(chunk, self.num_chunks)
        size, longer = divmod(self.num_elements, self.num_chunks)
        return row * self.num_elements + column * size + min(column, longer)

    def span(self, chunk_lo: int, chunk_hi: int) -> tuple[int, int]:
        """First element of `chunk_lo` and first element after chunk `chunk_hi - 1`."""
        return self.start(chunk_lo), self.start(chunk_hi)

    def bounds(self) -> NDArray[np.int64]:
        """The starts of all chunks, and the end."""
        row, column = np.divmod(np.arange(self.num_rows * self.num_chunks + 1, dtype=np.int64), self.num_chunks)
        size, longer = divmod(self.num_elements, self.num_chunks)
        return np.asarray(row * self.num_elements + column * size + np.minimum(column, longer))

    def sizes(self) -> NDArray[np.int64]:
        """The number of elements in each chunk."""
        return np.diff(self.bounds())

    def elements(self, ranges: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
        """The elements of some ranges of chunks, in their order: how a rank's own tensor lies in the whole.

        >>> Layout(4, 2, 2).elements(((1, 2), (3, 4))).tolist()
        [2, 3, 6, 7]
        """
        spans = [np.arange(*self.span(lo, hi), dtype=np.int64) for lo, hi in ranges]
        return np.concatenate(spans) if spans else np.zeros(0, dtype=np.int64)
