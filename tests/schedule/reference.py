"""What each collective must give, said in plain numpy and without schedules; and inputs to try it with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = list[NDArray[Any]]
REDUCE = {
    "SUM": np.add.reduce,
    "AVG": np.add.reduce,
    "MAX": np.maximum.reduce,
    "MIN": np.minimum.reduce,
    "PRODUCT": np.multiply.reduce,
}
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64", "complex64")


def expected(collective: str, inputs: Arrays, op: str, root: int) -> Arrays:
    """The right result of every rank."""
    world_size = len(inputs)
    if collective == "all_gather":
        return [np.concatenate(inputs)] * world_size
    if collective == "broadcast":
        return [inputs[root]] * world_size
    if collective == "all_to_all":
        return [np.concatenate([np.array_split(row, world_size)[rank] for row in inputs]) for rank in range(world_size)]
    total = combined(inputs, op)
    if collective == "reduce_scatter":
        return np.array_split(total, world_size)
    if collective == "reduce":
        return [total if rank == root else total[:0] for rank in range(world_size)]
    assert collective == "all_reduce"
    return [total] * world_size


def combined(inputs: Arrays, op: str) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        total = REDUCE[op](np.stack(inputs), axis=0, dtype=None if op in ("MAX", "MIN") else inputs[0].dtype)
        return (total / inputs[0].dtype.type(len(inputs))).astype(inputs[0].dtype) if op == "AVG" else total


def make_inputs(collective: str, world_size: int, num_elements: int, dtype: str = "int64", seed: int = 0) -> Arrays:
    """Random tensors to start with; small values, so that float16 holds the sum of 17 of them exactly."""
    random = np.random.default_rng([seed, world_size, num_elements])
    whole = random.integers(0, 2 if dtype == "bool" else 4, (world_size, num_elements)).astype(dtype)
    if collective == "all_gather":
        return np.array_split(whole[0], world_size)
    return list(whole)


def sense(op: str, dtype: str) -> bool:
    """Whether an op makes sense for a dtype."""
    kind = np.dtype(dtype).kind
    return kind in {"SUM": "iufc", "AVG": "fc", "MAX": "biuf", "MIN": "biuf", "PRODUCT": "iufc"}[op]
