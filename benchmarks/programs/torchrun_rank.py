"""A rank under torchrun: one all-reduce, then blocks of them on request. Rank 0 holds the channel."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.channel import Channel

STOP = 0


def all_reduces(numel: int, count: int) -> float:
    """Seconds that `count` all-reduces of `numel` floats take."""
    tensor = torch.zeros(numel)
    dist.barrier()
    began = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(tensor)
    return time.perf_counter() - began


def follow() -> None:
    """A rank without the channel: does what rank 0 broadcasts."""
    while True:
        what = torch.zeros(2, dtype=torch.long)
        dist.broadcast(what, src=0)
        numel, count = (int(value) for value in what)
        if numel == STOP:
            return
        all_reduces(numel, count)


def lead() -> None:
    """Rank 0: passes the bench's requests on."""
    channel = Channel()
    channel.tell(event="first all-reduce")

    def block(**asked: Any) -> float:
        dist.broadcast(torch.tensor([asked["numel"], asked["count"]]), src=0)
        return all_reduces(asked["numel"], asked["count"])

    channel.serve({"all_reduces": block})
    dist.broadcast(torch.tensor([STOP, 0]), src=0)


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    first = torch.full((4,), float(dist.get_rank() + 1))
    dist.all_reduce(first)
    size = dist.get_world_size()
    assert first.tolist() == [size * (size + 1) / 2] * 4
    if dist.get_rank() == 0:
        lead()
    else:
        follow()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
