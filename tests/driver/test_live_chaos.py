"""Random faults in one kernel, one after the other: the same kernel, no orphans, nothing grows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.stress.chaos import chaos
from labkit.driver.world import World

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(900)]

NUM_FAULTS = 150  # `python -m benchmarks.stress chaos` runs 1,000


def test_random_faults(world_of: Callable[..., World]) -> None:
    report = chaos(world_of(3), NUM_FAULTS, seed=20)
    assert report.num_faults == NUM_FAULTS
    assert report.problems == []
