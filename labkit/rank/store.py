"""Hosts the store of every generation, so that it outlives any rank: on loopback only, or where the hosts meet."""

from __future__ import annotations

import os
import signal
import socket

from .place import join_network


def keep_store(writer: int) -> None:
    """Serve until ended; the port goes to descriptor `writer` as one line.

    The listening socket is made here, since a TCPStore's own would listen on every interface.
    """
    import torch.distributed as dist

    join_network()
    host = os.environ.get("LABKIT_STORE_HOST") or "127.0.0.1"
    listener = socket.socket()
    listener.bind((host, 0))
    listener.listen(64)
    port = listener.getsockname()[1]
    store = dist.TCPStore(host, port, None, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    os.write(writer, f"{store.port}\n".encode())
    os.close(writer)
    while True:
        signal.pause()


if __name__ == "__main__":
    keep_store(1)
