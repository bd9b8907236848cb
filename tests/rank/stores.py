"""The part of a TCPStore that safe mode uses, in this process."""

from __future__ import annotations

import threading


class Store:
    """Keys and values under a lock; `get` of what is not there is an error here, where torch would wait."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        with self.lock:
            self.kept[key] = value.encode()

    def get(self, key: str) -> bytes:
        with self.lock:
            return self.kept[key]

    def check(self, keys: list[str]) -> bool:
        with self.lock:
            return all(key in self.kept for key in keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        with self.lock:
            return [self.kept[key] for key in keys]

    def delete_key(self, key: str) -> bool:
        with self.lock:
            return self.kept.pop(key, None) is not None
