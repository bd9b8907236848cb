"""JSON lines between the bench and a program it has started, over a Unix socket; standard library only."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

CHANNEL = "LABKIT_BENCH_CHANNEL"

Op = Callable[..., Any]


class Channel:
    """A program's end: tells the bench things, and serves its questions until it says stop."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ[CHANNEL])
        self._lines = self._socket.makefile("rb")

    def tell(self, **message: Any) -> None:
        """Send one message."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def asked(self) -> dict[str, Any] | None:
        """The next question; None when the bench has stopped asking."""
        line = self._lines.readline()
        return json.loads(line) if line else None

    def serve(self, ops: Mapping[str, Op]) -> None:
        """Answer {"op": name, ...} with {"value": ...} until "stop"; an error ends the program, and its log tells why."""
        while (question := self.asked()) is not None:
            op = question.pop("op")
            if op == "stop":
                return
            self.tell(value=ops[op](**question))
