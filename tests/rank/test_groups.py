"""What a generation leaves behind."""

from __future__ import annotations

import torch.distributed as dist

from labkit.rank.groups import forget_others


def test_the_keys_of_other_generations_are_forgotten_and_those_of_this_one_stay() -> None:
    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    for generation in (1, 2, 10, 21):
        for key in ("a", "group/b"):
            dist.PrefixStore(f"secret-generation-{generation}", store).set(key, "x")
    forget_others(store, "secret-generation-2")
    assert sorted(store.list_keys()) == ["secret-generation-2/a", "secret-generation-2/group/b"]
