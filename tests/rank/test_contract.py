"""The contract of safe mode, with a store in this process: who meets, who is refused, and what is tidied away."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import ContractError
from labkit.rank.context import RankContext
from labkit.rank.contract import Contract
from labkit.wire import Call


class Store:
    """The part of a TCPStore that the contract uses."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        with self.lock:
            self.kept[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        with self.lock:
            return all(key in self.kept for key in keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        with self.lock:
            return [self.kept[key] for key in keys]

    def delete_key(self, key: str) -> bool:
        with self.lock:
            return self.kept.pop(key, None) is not None


def ranks(store: Store, count: int, folder: Path) -> list[Contract]:
    made = []
    for rank in range(count):
        context = RankContext(rank, count, folder, {})
        made.append(Contract(context, store))
    return made


def call(members: tuple[int, ...] = (0, 1), **fields: Any) -> Call:
    return Call(1, 1, **{"op": "all_reduce", "shape": (8,), "dtype": "float32", "group_ranks": members, **fields})


def meet(contracts: list[Contract], calls: list[Call]) -> list[BaseException | None]:
    with ThreadPoolExecutor(len(contracts)) as pool:
        asked = [pool.submit(contract, one) for contract, one in zip(contracts, calls, strict=True)]
        return [one.exception(timeout=10) for one in asked]


def test_calls_that_agree_pass(tmp_path: Path) -> None:
    contracts = ranks(Store(), 3, tmp_path)
    for _ in range(5):
        assert meet(contracts, [call((0, 1, 2))] * 3) == [None] * 3


def test_a_difference_is_told_on_every_member_with_who_called_what(tmp_path: Path) -> None:
    errors = meet(ranks(Store(), 3, tmp_path), [call((0, 1, 2)), call((0, 1, 2)), call((0, 1, 2), op="broadcast", root=0)])
    assert all(isinstance(error, ContractError) for error in errors)
    assert "ranks 0 and 1: all_reduce; rank 2: broadcast" in str(errors[0])
    assert "no rank has issued this call" in str(errors[2])


def test_after_a_refusal_the_next_calls_are_compared_again(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)
    assert all(meet(contracts, [call(), call(shape=(4,))]))
    assert meet(contracts, [call(), call()]) == [None, None]


def test_groups_are_counted_apart(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)
    assert meet(contracts, [call(group="group 1"), call(group="group 1")]) == [None, None]
    assert meet(contracts, [call(group="world"), call(group="world")]) == [None, None]


def test_a_group_of_one_asks_nobody(tmp_path: Path) -> None:
    store = Store()
    ranks(store, 1, tmp_path)[0](call((0,)))
    assert store.kept == {}


def test_a_member_that_does_not_come_is_waited_for_until_the_driver_says_so(tmp_path: Path) -> None:
    context = RankContext(0, 2, tmp_path, {})
    contract = Contract(context, Store())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(contract, call())
        time.sleep(0.05)
        assert not waiting.done()
        context.refuse("rank 1 has finished its cell")
        error = waiting.exception(timeout=5)
    assert isinstance(error, ContractError)
    assert "rank 1 has finished its cell" in str(error)


def test_the_store_stays_small(tmp_path: Path) -> None:
    store = Store()
    contracts = ranks(store, 2, tmp_path)
    for _ in range(20):
        meet(contracts, [call(), call()])
    assert len(store.kept) <= 4


@pytest.mark.parametrize("field", [{"dtype": "int64"}, {"root": 1}, {"reduce_op": "max"}, {"shape": (2, 2, 2)}])
def test_every_part_of_a_call_counts(tmp_path: Path, field: dict[str, Any]) -> None:
    first = call(shape=(2, 4)) if "shape" in field else call()
    errors = meet(ranks(Store(), 2, tmp_path), [first, call(**field)])
    assert all(isinstance(error, ContractError) for error in errors)


def test_a_call_without_a_root_is_not_told_with_one(tmp_path: Path) -> None:
    errors = meet(ranks(Store(), 2, tmp_path), [call(reduce_op="sum"), call(reduce_op="max")])
    assert "reduce op sum" in str(errors[0])
    assert "root" not in str(errors[0])
