"""Errors that say a process group is broken, and those that only sound like it."""

from __future__ import annotations

import pytest

from labkit.vocabulary import breaks_groups, is_consequence

PAIR = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] "


@pytest.mark.parametrize(
    "error",
    [
        f"RuntimeError: {PAIR}Read error [127.0.0.1]:709: Connection reset by peer. This is typically caused by a remote worker",
        f"RuntimeError: {PAIR}Connection closed by peer [127.0.0.1]:4711",
        "RuntimeError: [/x/unbound_buffer.cc:81] Timed out waiting 1000ms for recv operation to complete",
        f"RuntimeError: {PAIR}Application timeout caused pair closure",
        "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.cpp:93, unhandled system error",
        "DistNetworkError: failed to recv, got 0 bytes",
        "DistStoreError: wait timeout after 300000ms, keys: /x",
        "ValueError: bad batch\nTraceback (most recent call last):\n  ...\nRuntimeError: Connection closed by peer [::1]:1",
    ],
)
def test_torch_s_own_sentences(error: str) -> None:
    assert breaks_groups(error)
    assert is_consequence(error)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: NCCL is not for this model",
        "RuntimeError: I asked NCCL for a ring",
        "MyError: Connection closed while I read the file",
        "AssertionError: Timed out waiting for the learner",
        "RuntimeError: the reader's Connection closed",
        "KeyError: 'Broken pipe'",
        "ValueError: a RuntimeError: Connection closed by peer",
        "ValueError: see ContractError",
    ],
)
def test_a_learner_s_own_words_break_nothing(error: str) -> None:
    assert not breaks_groups(error)
    assert not is_consequence(error)


@pytest.mark.parametrize(
    "error",
    [
        "ContractError: the ranks do not agree",
        "KeyboardInterrupt: ",
        "RuntimeError: all_reduce was held back and never issued: x",
    ],
)
def test_what_follows_from_others_leaves_the_groups_whole(error: str) -> None:
    assert is_consequence(error)
    assert not breaks_groups(error)
