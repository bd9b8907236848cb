"""Alpha, beta and gamma from measurements, by least squares, with what the fit leaves unexplained.

Errors are weighed relative to the measured time: a sweep spans five orders of magnitude, and plain least squares would
look at the largest size only. No coefficient comes out negative: one that would is left at 0.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..plain import record
from .algorithm import ALGORITHMS
from .checks import check_number
from .cost import Link, predict


@record
class Sample:
    """One measured point: an algorithm, a world, a size in bytes, and the median seconds."""

    algorithm: str
    world_size: int
    num_bytes: float
    time_s: float
    params: dict[str, Any] = dataclasses.field(default_factory=dict)

    def predict_s(self, link: Link) -> float:
        """What the model says for this point."""
        return predict(self.algorithm, self.world_size, self.num_bytes, link, **self.params).seconds


@record
class Residual:
    """A point beside its prediction; `relative` is (predicted - measured) / measured."""

    sample: Sample
    predicted_s: float

    @property
    def relative(self) -> float:
        return self.predicted_s / self.sample.time_s - 1


@record
class Fit:
    """The fitted link and every point's residual."""

    link: Link
    residuals: tuple[Residual, ...]

    @property
    def typical(self) -> float:
        """The root mean square of the relative residuals."""
        return _rms(self.residuals)

    @property
    def worst(self) -> Residual:
        """The point the model explains least."""
        return max(self.residuals, key=lambda each: abs(each.relative))


@record
class HeldOut:
    """A fit without some points, and how well it predicts them."""

    fit: Fit
    residuals: tuple[Residual, ...]

    @property
    def typical(self) -> float:
        """The root mean square of the relative errors on the points the fit has not seen."""
        return _rms(self.residuals)


def fit(samples: Sequence[Sample], *, gamma: bool = False) -> Fit:
    """Alpha and beta, and gamma if asked for, that explain the samples best.

    >>> true = Link.of(latency_us=10, gb_per_s=2)
    >>> points = [Sample("ring", 4, size, predict("ring", 4, size, true).seconds) for size in (1e3, 1e5, 1e7)]
    >>> found = fit(points)
    >>> round(found.link.alpha_s * 1e6, 6), round(1e-9 / found.link.beta_s_per_byte, 6), found.typical < 1e-9
    (10.0, 2.0, True)
    """
    matrix, times = _system(samples, gamma)
    values = _solve(matrix / times[:, None], np.ones(len(times)))
    link = Link(*(float(value) for value in values))
    return Fit(link, _residuals(samples, link))


def hold_out(samples: Sequence[Sample], sizes: Sequence[float], *, gamma: bool = False) -> HeldOut:
    """Fit without the given sizes, then predict them: the honest test of a model."""
    kept = [sample for sample in samples if sample.num_bytes not in sizes]
    held = [sample for sample in samples if sample.num_bytes in sizes]
    if not held:
        raise UsageError("no sample has a held-out size", hint="hold out sizes that were measured")
    made = fit(kept, gamma=gamma)
    return HeldOut(made, _residuals(held, made.link))


def _system(samples: Sequence[Sample], gamma: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of messages, bytes and reduced bytes; UsageError if they do not determine the coefficients."""
    columns = 3 if gamma else 2
    rows = []
    for sample in samples:
        check_number("time_s", sample.time_s, above_zero=True)
        check_number("num_bytes", sample.num_bytes)
        path = ALGORITHMS[sample.algorithm].critical(sample.world_size, **sample.params)
        parts = (path.messages, float(path.fraction) * sample.num_bytes, float(path.reduced) * sample.num_bytes)
        rows.append(parts[:columns])
    matrix = np.array(rows, dtype=np.float64).reshape(-1, columns)
    scale = np.abs(matrix).max(axis=0, initial=0)
    if (scale == 0).any() or np.linalg.matrix_rank(matrix / scale) < columns:
        hint = "measure several sizes, small and large"
        if gamma:
            hint += ", of algorithms that reduce different parts of what they move"
        raise UsageError(f"{len(samples)} samples do not determine {columns} coefficients", hint=hint)
    return matrix, np.array([sample.time_s for sample in samples])


def _solve(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Non-negative least squares; with three unknowns at most, every choice of zeros is tried."""
    best, best_error = np.zeros(matrix.shape[1]), float("inf")
    scale = np.linalg.norm(matrix, axis=0)
    for count in range(1, matrix.shape[1] + 1):
        for used in itertools.combinations(range(matrix.shape[1]), count):
            part = matrix[:, used] / scale[list(used)]
            solution = np.linalg.lstsq(part, target, rcond=None)[0]
            error = float(np.linalg.norm(part @ solution - target))
            if (solution >= 0).all() and error < best_error:
                best, best_error = np.zeros(matrix.shape[1]), error
                best[list(used)] = solution / scale[list(used)]
    return best


def _residuals(samples: Sequence[Sample], link: Link) -> tuple[Residual, ...]:
    return tuple(Residual(sample, sample.predict_s(link)) for sample in samples)


def _rms(residuals: Sequence[Residual]) -> float:
    return float(np.sqrt(np.mean([each.relative**2 for each in residuals])))


def crossing_of(pairs: Sequence[tuple[float, float]], *, rises: bool | None = None) -> float | None:
    """The size at which a ratio goes through 1, between points of (size, ratio), on logarithmic scales.

    `rises`: only upwards (True) or only downwards (False), which is not noise the other way round.

    >>> round(crossing_of([(100, 0.5), (10_000, 2.0)]))
    1000
    >>> crossing_of([(100, 0.5), (10_000, 0.9)]) is crossing_of([(100, 0.5), (10_000, 2.0)], rises=False) is None
    True
    """
    logs = [(math.log(size), math.log(ratio)) for size, ratio in sorted(pairs)]
    best, least = None, math.inf
    for index, ((x0, y0), (x1, y1)) in enumerate(itertools.pairwise(logs)):
        if y0 * y1 > 0 or y0 == y1 or rises not in (None, y1 > y0):
            continue
        # noise crosses as well: the right place has the least on the wrong side of it
        side = math.copysign(1, y1 - y0)
        wrong = sum(max(0.0, side * y) for _, y in logs[: index + 1]) + sum(max(0.0, -side * y) for _, y in logs[index + 1 :])
        if wrong < least:
            best, least = math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)), wrong
    return best
