"""ipyparallel as it comes: its own launchers and defaults, torch imported and the group formed by calls to the engines."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import ipyparallel

from benchmarks.channel import Channel

ANSWER_S = 60.0


def join(rank: int, world_size: int, port: int) -> float:
    """Runs in an engine: import torch, form the group, one all-reduce."""
    import os
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=timedelta(seconds=60))
    tensor = torch.full((4,), float(rank + 1))
    dist.all_reduce(tensor)
    return float(tensor[0])


def wait_for_the_last() -> None:
    """Runs in an engine: an all-reduce that not every rank enters."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(4))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def form(client: Any, ranks: int) -> None:
    """A process group on all engines, and its check."""
    port = free_port()
    calls = [client[engine].apply_async(join, rank, ranks, port) for rank, engine in enumerate(sorted(client.ids))]
    values = [call.get(ANSWER_S) for call in calls]
    assert values == [ranks * (ranks + 1) / 2] * ranks, values


def main(ranks: int) -> None:
    cluster = ipyparallel.Cluster(n=ranks, log_level=40)
    client = cluster.start_and_connect_sync()
    try:
        form(client, ranks)
        channel = Channel()
        channel.tell(event="first all-reduce")

        def restart(*, stuck: bool) -> float:
            if stuck:  # all but the last wait in an all-reduce for good
                for engine in sorted(client.ids)[:-1]:
                    client[engine].apply_async(wait_for_the_last)
                time.sleep(0.5)
            began = time.perf_counter()
            cluster.restart_engines_sync()
            client.wait_for_engines(ranks, timeout=ANSWER_S)
            form(client, ranks)
            return time.perf_counter() - began

        def calls(count: int) -> list[float]:
            view = client[:]
            taken = []
            for _ in range(count):
                began = time.perf_counter()
                view.apply_sync(nothing)
                taken.append(time.perf_counter() - began)
            return taken

        channel.serve({"restart": restart, "calls": calls})
    finally:
        cluster.stop_cluster_sync()


def nothing() -> None:
    """The emptiest call."""


if __name__ == "__main__":
    main(int(sys.argv[1]))
