"""The two ends of a message in safe mode: who waits for whom, what fits, and what is announced only."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import ContractError
from labkit.rank.context import RankContext
from labkit.rank.contract import Contract
from labkit.wire import Call
from tests.rank.stores import Store


class Ranks:
    """Ranks whose contracts share a store; `ask` lets one make a call."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.store = Store()
        self.contexts = [RankContext(rank, count, folder, {}) for rank in range(count)]
        self.contracts = [Contract(context, self.store) for context in self.contexts]
        self.pool = ThreadPoolExecutor(count + 2)

    def ask(self, rank: int, op: str, peer: int, *, tag: int = 0, numel: int = 4, **fields: Any) -> Future[None]:
        call = Call(1, 0, op, group_ranks=(0, 1, 2), shape=(numel,), dtype="float32", num_bytes=4 * numel, root=peer, tag=tag)
        return self.pool.submit(self.contracts[rank], Call(**{**vars(call), **fields}))


@pytest.fixture
def ranks(tmp_path: Path) -> Any:
    made = Ranks(tmp_path)
    yield made
    for context in made.contexts:
        context.refuse("the test is over")
    made.pool.shutdown()


def test_a_send_waits_for_its_recv(ranks: Ranks) -> None:
    send = ranks.ask(0, "send", 1)
    time.sleep(0.05)
    assert not send.done()
    assert ranks.ask(1, "recv", 0).result(timeout=5) is send.result(timeout=5) is None


def test_what_returns_at_once_only_announces_itself(ranks: Ranks) -> None:
    ranks.ask(0, "send", 1, async_op=True).result(timeout=5)
    ranks.ask(1, "recv", 0, async_op=True).result(timeout=5)
    ranks.ask(2, "recv", 0, async_op=True).result(timeout=5)
    ranks.ask(0, "send", 2).result(timeout=5)


def test_tags_and_directions_are_messages_of_their_own(ranks: Ranks) -> None:
    send = ranks.ask(0, "send", 1, tag=1)
    others = [ranks.ask(1, "recv", 0, tag=0), ranks.ask(2, "send", 1, tag=1)]
    time.sleep(0.05)
    assert not any(call.done() for call in (send, *others))
    for context in ranks.contexts:
        context.refuse("the tags do not match")
    assert all("the tags do not match" in str(call.exception(timeout=5)) for call in (send, *others))


def test_a_refused_end_is_taken_back(ranks: Ranks) -> None:
    first = ranks.ask(0, "send", 1)
    time.sleep(0.02)
    ranks.contexts[0].refuse("rank 1 has left")
    assert isinstance(first.exception(timeout=5), ContractError)
    ranks.contexts[0].refuse("")
    again = ranks.ask(0, "send", 1)
    assert ranks.ask(1, "recv", 0).result(timeout=5) is again.result(timeout=5) is None, "both are the first of their message"


def test_more_than_there_is_room_for_is_refused_on_both_ends(ranks: Ranks) -> None:
    calls = [ranks.ask(0, "send", 1, numel=8), ranks.ask(1, "recv", 0, numel=4)]
    for call in calls:
        text = str(call.exception(timeout=5))
        assert "rank 0 sends shape (8,), float32, and rank 1 has room for shape (4,), float32" in text
        assert "no rank has issued this call" in text


def test_a_larger_buffer_is_right(ranks: Ranks) -> None:
    calls = [ranks.ask(0, "send", 1, numel=4), ranks.ask(1, "recv", 0, numel=8)]
    assert [call.exception(timeout=5) for call in calls] == [None, None]


def test_an_end_that_was_issued_already_is_said_to_be(ranks: Ranks) -> None:
    ranks.ask(0, "send", 1, numel=8, async_op=True).result(timeout=5)
    text = str(ranks.ask(1, "recv", 0, numel=4).exception(timeout=5))
    assert "had been issued" in text
    assert "no rank has issued" not in text


def test_a_receiver_that_takes_from_any_rank_waits_for_a_message_and_no_sender_waits_for_it(ranks: Ranks) -> None:
    first = ranks.ask(1, "recv", -1)
    time.sleep(0.05)
    assert not first.done()
    ranks.ask(2, "send", 1).result(timeout=5)
    first.result(timeout=5)
    second = ranks.ask(1, "recv", -1)
    time.sleep(0.05)
    assert not second.done(), "the one message is taken"
    ranks.ask(0, "send", 1).result(timeout=5)
    second.result(timeout=5)
    ranks.ask(1, "recv", 0).result(timeout=5)


def test_a_receive_of_a_named_rank_takes_no_message_of_another(ranks: Ranks) -> None:
    ranks.ask(1, "recv", 0, async_op=True).result(timeout=5)
    ranks.ask(2, "send", 1, async_op=True).result(timeout=5)
    ranks.ask(1, "recv", -1).result(timeout=5)


def test_a_receive_from_any_rank_after_many_of_a_named_one(ranks: Ranks) -> None:
    for _ in range(3):
        for call in [ranks.ask(0, "send", 1), ranks.ask(1, "recv", 0)]:
            call.result(timeout=5)
    taken = ranks.ask(1, "recv", -1)
    ranks.ask(0, "send", 1).result(timeout=5)
    taken.result(timeout=5)


def test_the_wait_for_what_was_issued_is_seen_and_not_refused(ranks: Ranks) -> None:
    ranks.ask(0, "send", 1, async_op=True, index=7).result(timeout=5)
    wait = ranks.pool.submit(ranks.contracts[0].before_wait, 7)
    time.sleep(0.1)
    assert not wait.done()
    ahead = ranks.pool.submit(ranks.contracts[1], Call(1, 1, "barrier", group_ranks=(0, 1), async_op=True))
    assert ahead.result(timeout=5) is None, "each would wait for the other, and an asynchronous call need not"
    ranks.contexts[0].refuse("a deadlock")
    assert wait.exception(timeout=5) is None, "the wait itself goes on, and is cut"


def test_a_handle_that_is_waited_for_after_later_messages_went_by(ranks: Ranks) -> None:
    """The receiver drops what it said of the first message when it sees the third; nobody may wait for that."""
    for index in (7, 8, 9):
        ranks.ask(0, "send", 1, async_op=True, index=index).result(timeout=5)
        ranks.ask(1, "recv", 0, async_op=True, index=index).result(timeout=5)
    for index in (9, 7, 8):
        assert ranks.pool.submit(ranks.contracts[0].before_wait, index).result(timeout=5) is None


def test_messages_are_counted_across_requests(ranks: Ranks) -> None:
    ranks.ask(0, "send", 1, async_op=True).result(timeout=5)
    for context in ranks.contexts:
        context.request_id += 1
    ranks.ask(1, "recv", 0).result(timeout=5)


def test_the_store_stays_small(ranks: Ranks) -> None:
    for _ in range(20):
        calls = [ranks.ask(0, "send", 1), ranks.ask(1, "recv", 0)]
        assert [call.exception(timeout=5) for call in calls] == [None, None]
    assert len([key for key in ranks.store.kept if key.startswith("pairs/")]) <= 4
