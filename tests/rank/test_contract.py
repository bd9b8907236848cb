"""The contract of safe mode, with a store in this process: who meets, who is refused, and what is tidied away."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import ContractError
from labkit.rank.context import RankContext
from labkit.rank.contract import Contract
from labkit.wire import Call, CallSite
from tests.rank.stores import Store


def ranks(store: Store, count: int, folder: Path) -> list[Contract]:
    made = []
    for rank in range(count):
        context = RankContext(rank, count, folder, {})
        made.append(Contract(context, store))
    return made


def call(members: tuple[int, ...] = (0, 1), **fields: Any) -> Call:
    return Call(
        1, 1, **{"op": "all_reduce", "shape": (8,), "dtype": "float32", "reduce_op": "sum", "group_ranks": members, **fields}
    )


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
    notes = [key for key in store.kept if key.startswith("contract/waits/")]  # of waits that were long
    assert len(notes) <= 2
    assert len(store.kept) - len(notes) <= 4


@pytest.mark.parametrize("field", [{"dtype": "int64"}, {"root": 1}, {"reduce_op": "max"}, {"shape": (2, 2, 2)}])
def test_every_part_of_a_call_counts(tmp_path: Path, field: dict[str, Any]) -> None:
    first = call(shape=(2, 4)) if "shape" in field else call()
    errors = meet(ranks(Store(), 2, tmp_path), [first, call(**field)])
    assert all(isinstance(error, ContractError) for error in errors)


def test_a_call_without_a_root_is_not_told_with_one(tmp_path: Path) -> None:
    errors = meet(ranks(Store(), 2, tmp_path), [call(reduce_op="sum"), call(reduce_op="max")])
    assert "reduce op sum" in str(errors[0])
    assert "root" not in str(errors[0])


def test_a_member_that_comes_after_the_others_have_given_up_is_told(tmp_path: Path) -> None:
    store = Store()
    contexts = [RankContext(rank, 2, tmp_path, {}) for rank in range(2)]
    contracts = [Contract(context, store) for context in contexts]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(contracts[0], call())
        time.sleep(0.02)
        contexts[0].refuse("rank 1 is busy", "let it end")
        assert str(waiting.exception(timeout=5)).endswith("; let it end")
        late = pool.submit(contracts[1], call()).exception(timeout=5)
    assert isinstance(late, ContractError)
    assert "others have given up waiting in it: rank 1 is busy" in str(late)


def test_a_later_error_names_the_first_refusal(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)
    first = meet(contracts, [call(), call(op="broadcast", root=0)])
    second = meet(contracts, [call(op="barrier"), call(op="broadcast", root=0)])
    assert "an error before this one" not in str(first[0])
    assert "an error before this one: safe mode refused broadcast #1" in str(second[1])


def test_calls_that_went_through_from_different_lines_are_told_with_a_refusal(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)
    here, there = CallSite("train.py", 3), CallSite("train.py", 9)
    assert meet(contracts, [call(site=here), call(site=there)]) == [None, None]
    text = str(meet(contracts, [call(), call(shape=(4,))])[0])
    assert "all_reduce #1 was matched between rank 0 at train.py, line 3 and rank 1 at train.py, line 9" in text
    assert "nothing" not in text


def test_asynchronous_calls_of_two_groups_may_come_in_another_order_on_every_rank(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)

    def issue(rank: int) -> None:
        for group in ("a", "b") if rank == 0 else ("b", "a"):
            contracts[rank](call(group=group, async_op=True))

    with ThreadPoolExecutor(2) as pool:
        assert [one.exception(timeout=10) for one in [pool.submit(issue, rank) for rank in range(2)]] == [None, None]


def test_what_went_on_alone_is_said_to_be_issued_where_it_does_not_match(tmp_path: Path) -> None:
    contracts = ranks(Store(), 2, tmp_path)

    def issue(rank: int) -> None:
        if rank == 0:
            contracts[0](call(group="a", async_op=True))
            contracts[0](call(group="b"))
        else:
            contracts[1](call(group="b"))
            contracts[1](call(group="a", op="broadcast", root=0))

    with ThreadPoolExecutor(2) as pool:
        ahead, last = [one.exception(timeout=10) for one in [pool.submit(issue, rank) for rank in range(2)]]
    assert ahead is None
    assert "rank 0 had issued it, asynchronously" in str(last)
    assert "no rank has issued" not in str(last)
