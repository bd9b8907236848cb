"""Which groups are made again in a new generation: ranks agree by what each of them knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch.distributed as dist

from labkit.rank.remaking import Made, agree


def made(number: int, *members: int, timeout_s: float = 9.0) -> Made:
    return Made(number, members, timeout_s, None, object())


def agreed(folder: Path, known: list[list[Made] | None]) -> list[list[tuple[int, tuple[int, ...]]]]:
    store = dist.FileStore(str(folder / "store"), len(known))
    with ThreadPoolExecutor(len(known)) as pool:
        plans = list(pool.map(lambda rank: agree(store, rank, len(known), known[rank]), range(len(known))))
    for rank, plan in enumerate(plans):
        own = {one.number: one.group for one in known[rank] or ()}
        assert [one.group for one in plan] == [own.get(one.number) for one in plan]
    return [[(one.number, one.members) for one in plan] for plan in plans]


def test_a_rank_that_was_not_there_learns_it_from_the_others(tmp_path: Path) -> None:
    groups = [made(1, 0, 2), made(4, 1, 2)]
    assert agreed(tmp_path, [groups, None, list(groups)]) == [[(1, (0, 2)), (4, (1, 2))]] * 3


def test_what_one_rank_has_not_made_or_has_ended_or_made_otherwise_is_left_out(tmp_path: Path) -> None:
    one = [made(1, 0, 1), made(2, 0, 1), made(3, 0, 1), made(4, 0, 1)]
    two = [made(1, 0, 1), made(3, 0, 2), made(4, 0, 1, timeout_s=5.0), made(5, 0, 1)]
    assert agreed(tmp_path, [one, two]) == [[(1, (0, 1))]] * 2


def test_of_new_ranks_alone_nothing_is_known(tmp_path: Path) -> None:
    assert agreed(tmp_path, [None, None]) == [[], []]
