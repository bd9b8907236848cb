"""Sends and receives, each with its partner."""

from __future__ import annotations

from labkit.diagnosis.pairs import odd_message, partners
from labkit.ring import SLOTS
from labkit.wire import Call


def test_messages_of_a_rank_whose_first_calls_are_lost_are_not_counted_from_the_first_that_is_left() -> None:
    def message(op: str, peer: int, index: int, size: int) -> Call:
        return Call(index, 0, op, group_ranks=(0, 1, 2), root=peer, num_bytes=4 * size, dtype="float32", cell=1, state="done")

    sent = tuple(message("send", 1, k, k % 3 + 1) for k in range(300))[-SLOTS:]
    received = [message("recv", 0, k, k % 3 + 1) for k in range(300)]
    received += [message("send", 2, 300 + k, 1) for k in range(10)]  # so rank 1 has lost ten of its receives more
    lines = {0: sent, 1: tuple(received)[-SLOTS:], 2: ()}
    assert odd_message(lines, partners(lines, 1), 1) is None
    short = {0: sent[:9], 1: tuple(received[-SLOTS:][:9]), 2: ()}
    assert odd_message(short, partners(short, 1), 1) is not None, "nothing is lost here, and the sizes differ"
