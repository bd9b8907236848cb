"""Tags and splits are read from a call's arguments, and come into the beacon."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from labkit.rank.context import RankContext
from labkit.rank.messages import splits, tags
from labkit.rank.tap import Tap
from labkit.ring import read_ring

ROWS = torch.zeros(6, 2)


def test_tags() -> None:
    assert tags("send", (ROWS, 1, None, 4), {}) == (4,)
    assert tags("irecv", (ROWS,), {"src": 0}) == (0,)
    batch = [SimpleNamespace(tag=3), SimpleNamespace(tag=5)]
    assert tags("batch_isend_irecv", (batch,), {}) == (3, 5)
    assert tags("broadcast", (ROWS,), {"src": 0}) == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((ROWS, ROWS), {}, (2, 2, 2, 2, 2, 2)),
        ((ROWS, ROWS, [1, 2, 3], [3, 2, 1]), {}, (3, 2, 1, 1, 2, 3)),
        ((ROWS, ROWS), {"input_split_sizes": [6, 0, 0]}, (6, 0, 0, 2, 2, 2)),
        ((), {"output": ROWS, "input": ROWS}, (2, 2, 2, 2, 2, 2)),
        ((ROWS, ROWS, [1, 2]), {}, ()),  # torch turns these down
        ((ROWS, "no tensor"), {}, ()),
    ],
)
def test_splits_of_one_tensor(args: tuple[object, ...], kwargs: dict[str, object], expected: tuple[int, ...]) -> None:
    assert splits("all_to_all_single", args, kwargs, 3) == expected


def test_splits_of_lists_are_elements() -> None:
    taken, given = [torch.zeros(2, 2), torch.zeros(1)], [torch.zeros(3), torch.zeros(0)]
    assert splits("all_to_all", (taken, given), {}, 2) == (3, 0, 4, 1)


def test_splits_come_into_the_beacon(tap: Tap, rank_context: RankContext) -> None:
    import torch.distributed as dist

    out = torch.empty(4)
    dist.all_to_all_single(out, torch.arange(4.0), [4], [4])
    state = read_ring(rank_context.run_dir / "rank-0.beacon")
    assert state is not None
    assert [(call.op, call.splits) for call in state.calls] == [("all_to_all_single", (4, 4))]
