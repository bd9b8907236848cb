"""A rank in this process: gloo with one member, a context in a folder of the test's, and a tap that is taken off again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.rank.context import RankContext


@pytest.fixture
def alone() -> Iterator[Any]:
    """The default process group of a world of one rank."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield c10d._get_default_group()
    dist.destroy_process_group()


@pytest.fixture
def rank_context(tmp_path: Path) -> Iterator[RankContext]:
    """A rank that runs cell 7."""
    made = RankContext(0, 1, tmp_path, {})
    made.enter(7)
    yield made
    made.ring.close()


@pytest.fixture
def tap(alone: Any, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tap that is installed and watches the group; torch's own functions are put back after the test."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    from labkit.rank.notes.not_waited import WAITS
    from labkit.rank.tap import Tap
    from labkit.rank.torch_calls import TAPPED

    for owner, names in (
        (dist, TAPPED),
        (c10d, TAPPED),
        (dist.Reducer, ("__init__", "prepare_for_backward")),
        (dist.ProcessGroup, ("monitored_barrier",)),
        (dist.Work, (*WAITS, "is_completed")),
        (torch.nn.parallel.DistributedDataParallel, ("__init__", "forward")),
    ):
        for name in names:
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, getattr(owner, name))
    made = rank_context.tap = Tap(rank_context)
    made.install()
    made.watch(alone, "world", (0,))
    made.begin_cell()
    return made
