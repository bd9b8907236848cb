"""Which elements of a tensor differ between ranks, and how to write the numbers: no layout here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import join_ranks
from ..phrases import fold
from . import TensorSample, TensorTable

_DIGITS = (4, 6, 9, 17)
_PLACES = 8  # elements named in one line


@dataclass(frozen=True)
class Differences:
    """What sets ranks apart, as positions in the samples' values.

    `odd` maps a rank to the positions at which it is alone against a majority; at the `split`
    positions there is no majority to be alone against. `sides` are the ranks with equal tensors, where
    saying so says more than positions do.
    """

    odd: dict[int, tuple[int, ...]]
    split: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...] = ()

    def side(self, rank: int) -> str:
        """A letter for the rank's side, where rows that are equal are told by letters; else ""."""
        return next((chr(ord("A") + i) for i, side in enumerate(self.sides) if rank in side), "")

    def marked(self, rank: int, position: int) -> bool:
        return position in self.split or position in self.odd.get(rank, ())

    @property
    def positions(self) -> list[int]:
        return sorted({*self.split, *(position for positions in self.odd.values() for position in positions)})


def differences(rows: dict[int, Sequence[float]]) -> Differences:
    """Compare the ranks' values position by position; equal means equal in every bit that is shown."""
    odd: dict[int, list[int]] = {}
    split: list[int] = []
    for position in range(min((len(values) for values in rows.values()), default=0)):
        keys = {rank: repr(values[position]) for rank, values in rows.items()}
        usual, alone = _majority(keys)
        if usual is None:
            split.append(position)
        for rank in alone:
            odd.setdefault(rank, []).append(position)
    return Differences({rank: tuple(found) for rank, found in sorted(odd.items())}, tuple(split))


def _majority(keys: dict[int, str]) -> tuple[str | None, list[int]]:
    """What more than half of the ranks have, and the ranks that have something else."""
    (usual, votes), *_ = Counter(keys.values()).most_common(1)
    if votes * 2 <= len(keys):
        return None, []
    return usual, [rank for rank, key in keys.items() if key != usual]


def join_elements(indices: Sequence[int]) -> str:
    """
    >>> join_elements([0, 1, 2, 3]), join_elements([5]), join_elements([0, 8])
    ('elements 0-3', 'element 5', 'elements 0 and 8')
    """
    return join_ranks(indices).replace("rank", "element", 1)


def comparison(table: TensorTable) -> tuple[Differences, str]:
    """The differences to mark, and the line that says them.

    >>> comparison(TensorTable("x", (TensorSample(0, "x", (1,), "int64", "cpu", 8, (1.0,), (0,)),)))[1]
    'only on rank 0, nothing to compare with'
    """
    samples = {sample.rank: sample for sample in table.samples}
    none = Differences({}, ())
    if len(samples) < 2:
        return none, f"only on {join_ranks(list(samples))}, nothing to compare with" if samples else "on no rank"
    for what, fact in (("shape", _shape), ("dtype", _dtype)):
        kinds = fold([(rank, fact(sample)) for rank, sample in samples.items()], key=str)
        if len(kinds) > 1:
            return none, f"differs: {what} " + ", ".join(f"{kind} on {join_ranks(ranks)}" for ranks, kind in kinds)
    if table.identical:
        return none, "identical on all ranks" if not table.missing else f"identical on {join_ranks(list(samples))}"
    indices = table.samples[0].indices
    if any(sample.indices != indices for sample in table.samples):
        return none, "differs: the ranks' checksums are not the same"
    found = differences({rank: sample.values for rank, sample in samples.items()})
    alike = fold([(sample.rank, sample) for sample in table.samples], key=lambda sample: sample.digest or str(sample.values))
    sides = tuple(ranks for ranks, _ in alike)
    if found.split and len(samples) > 2:
        if len(sides) < len(samples):
            equal = [f"{join_ranks(side)} are equal" if len(side) > 1 else f"{join_ranks(side)} is alone" for side in sides]
            return Differences({}, (), sides), "differs: " + ", ".join(equal)
        if len(found.split) == len(indices):
            return none, "differs: no two ranks are equal"
    parts = [
        f"{join_ranks(ranks)} {_at(p, table)}" for ranks, p in fold(list(found.odd.items()), key=lambda positions: positions)
    ]
    if found.split:
        parts.append(f"the ranks disagree {_at(found.split, table)}")
    line = "differs: " + ("; ".join(parts) or "not at the elements shown here, but the checksums are not the same")
    # Marks everywhere mark nothing: where no two ranks have much in common the line is enough.
    return (none if len(found.split) == len(indices) else found), line


def _at(positions: Sequence[int], table: TensorTable) -> str:
    """Where, in words: "at elements 0-3", "at every element shown"."""
    sample = table.samples[0]
    if len(positions) == len(sample.indices) > 1:
        return "at every element" + (" shown" if sample.sampled else "")
    places = [sample.indices[position] for position in positions]
    if sample.sampled and len(places) > _PLACES:
        return f"at {join_elements(places[:_PLACES])} and {len(places) - _PLACES} more of those shown"
    return f"at {join_elements(places)}"


def _shape(sample: TensorSample) -> str:
    return str(list(sample.shape))


def _dtype(sample: TensorSample) -> str:
    return sample.dtype.removeprefix("torch.")


def whole(dtype: str) -> bool:
    name = dtype.removeprefix("torch.")
    return name.startswith(("int", "uint", "bool"))


def number(value: float, dtype: str = "float32", digits: int = 4) -> str:
    """A value as short as it can be read.

    >>> number(17.0, "int64"), number(1 / 3), number(float("nan")), number(1.0, "bool")
    ('17', '0.3333', 'nan', 'True')
    """
    if not math.isfinite(value):
        return str(value)
    if dtype.removeprefix("torch.") == "bool":
        return str(bool(value))
    return f"{int(value):d}" if whole(dtype) else f"{value:.{digits}g}"


def written(values: Sequence[float], dtype: str) -> list[str]:
    """One column's numbers, with as many digits as it takes to tell different ones apart."""
    different = len({repr(value) for value in values})
    texts: list[str] = []
    for digits in _DIGITS:
        texts = [number(value, dtype, digits) for value in values]
        if len(set(texts)) >= different:
            break
    return texts


def pick(count: int, room: int, first: Sequence[int]) -> list[int]:
    """At most `room` of `count` positions: those in `first`, then evenly spaced ones.

    >>> pick(3, 8, []), pick(100, 4, [50]), pick(100, 4, [])
    ([0, 1, 2], [0, 33, 50, 67], [0, 25, 50, 75])
    """
    if count <= room:
        return list(range(count))
    chosen = set(first[: room // 2])
    spaced = [round(i * count / (room - len(chosen))) for i in range(room - len(chosen))]
    chosen.update(spaced)
    return sorted(chosen)
