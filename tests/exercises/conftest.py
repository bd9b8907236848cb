"""Tables as a world would give them, without a world."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import pytest

from labkit.wire import TensorSample, TensorTable


def make_table(rows: Sequence[Sequence[float]], name: str = "x", missing: tuple[int, ...] = ()) -> TensorTable:
    samples = tuple(
        TensorSample(
            rank,
            name,
            (len(row),),
            "float32",
            "cpu",
            4 * len(row),
            tuple(map(float, row)),
            tuple(range(len(row))),
            digest=hashlib.blake2b(repr(list(map(float, row))).encode()).hexdigest(),
        )
        for rank, row in enumerate(rows)
        if rank not in missing
    )
    return TensorTable(name, samples, missing)


@pytest.fixture
def table() -> Callable[..., TensorTable]:
    return make_table
