"""Requests over ipyparallel: its controller routes them, its engines are the ranks.

ipyparallel's own calls ship pickles both ways. Ours are messages of our own on the same channels - JSON
and raw buffers, signed like all others - so nothing that a rank sends is ever unpickled here. That rests
on private parts of ipyparallel 9.2 (`Client._send`, `_queue_handlers`, `_query_socket`,
`_control_stream`, `_registration_callbacks`, `_update_engines`), which tests/driver/test_ipp_contract.py holds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any

import ipyparallel as ipp
from ipyparallel.client.client import unpack_message

from ..errors import DeadlineExceeded, RankDead, StartError, join_ranks
from ..wire import from_plain, to_plain
from .transport import ControlError, OnOutput, Pending, Reply

ASK_AGAIN_S = 10
REMEMBERED = 1000  # signatures of messages that were seen, so that none is taken twice
ANNOUNCED_S = 0.2  # a rank that is up is announced within milliseconds


class _Client(ipp.Client):
    """A client that drops what it would have to unpickle: a rank that is not trusted can't run code here."""

    @unpack_message
    def _dispatch_iopub(self, msg: dict[str, Any]) -> None:
        if msg["header"]["msg_type"] != "data_message":
            ipp.Client._dispatch_iopub.__wrapped__(self, msg)


class IppTransport:
    """A client of one controller."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._client = _connect(folder, timeout_s)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._pending: dict[int, set[Pending]] = {}
        dropped = dict.fromkeys(self._client._queue_handlers, lambda message: None)
        self._client._queue_handlers = {**dropped, "labkit_reply": self._on_reply}
        self._client._registration_callbacks.append(self._on_registration)
        self._by_message: dict[str, tuple[Pending, list[Any]]] = {}
        self._asked: dict[int, set[Any]] = {}  # the client's futures of control requests, by rank

    # ---- who is there
    def _on_registration(self, event: dict[str, Any]) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def ids(self) -> set[int]:
        return set(self._client._ids)

    def wait_for_ranks(self, ranks: Sequence[int], timeout_s: float) -> None:
        """Return when all ranks can be reached; DeadlineExceeded names those that can't.

        A rank that registers just when this client connects is announced before the client listens, and never again. So the
        controller is asked who is there.
        """
        end = time.monotonic() + timeout_s
        while not set(ranks) <= self.ids and (left := end - time.monotonic()) > 0:
            self._wait(lambda: set(ranks) <= self.ids, min(left, ANNOUNCED_S))
            if not set(ranks) <= self.ids:
                self._ask_who_is_there(ranks)
        missing = sorted(set(ranks) - self.ids)
        if missing:
            raise DeadlineExceeded(
                f"{join_ranks(missing)} did not come up in {timeout_s:g} s",
                hint="`labkit doctor` looks for the reason",
                ranks=missing,
            )

    def _ask_who_is_there(self, ranks: Sequence[int]) -> None:
        def take(answer: Future[Any]) -> None:
            engines = answer.result()["content"].get("engines", {})
            with self._changed:
                self._client._update_engines({int(rank): uuid for rank, uuid in engines.items() if int(rank) in ranks})
                self._changed.notify_all()

        self._client._send(self._client._query_socket, "connection_request", content={}).add_done_callback(take)

    def wait_gone(self, rank: int, timeout_s: float) -> None:
        self._wait(lambda: rank not in self.ids, timeout_s)
        if rank in self.ids:
            raise DeadlineExceeded(f"rank {rank} could not be unregistered", hint="world.stop() and start again", ranks=[rank])

    def _wait(self, there: Any, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        with self._changed:
            while not there() and (left := end - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.02))

    # ---- the main channel
    def request(
        self,
        rank: int,
        op: str,
        payload: dict[str, Any],
        *,
        request_id: int = 0,
        buffers: Sequence[bytes] = (),
        on_output: OnOutput | None = None,
    ) -> Pending:
        pending = Pending(rank, op, int(payload.get("cell", 0)), on_output)
        target = self._target(rank)
        if target is None:
            pending.fail("dead")
            return pending
        with self._lock:
            self._pending.setdefault(rank, set()).add(pending)
        pending.future.add_done_callback(lambda _: self._drop(rank, pending))

        def hook(future: Any) -> None:
            parts: list[Any] = []
            self._by_message[future.msg_id] = (pending, parts)
            pending.future.add_done_callback(lambda _: self._forget(future))
            self._client.metadata[future.msg_id]  # a message without metadata gets no word of "idle"
            future.iopub_callbacks.append(lambda message: self._on_output(future, message))

        content = {"op": op, "payload": to_plain(payload), "request_id": request_id}
        self._client._send(
            self._client._mux_stream, "labkit_request", content=content, ident=target,
            buffers=list(buffers) or None, message_future_hook=hook,
        )  # fmt: skip
        return pending

    def _target(self, rank: int) -> bytes | None:
        uuid = self._client._engines.get(rank)
        return uuid.encode() if uuid is not None else None

    def _drop(self, rank: int, pending: Pending) -> None:
        with self._lock:
            self._pending.get(rank, set()).discard(pending)

    def _forget(self, future: Any) -> None:
        """A request has ended, by an answer or with its rank: the client drops what it holds of it."""
        self._by_message.pop(future.msg_id, None)
        _resolve(future)

    def _on_output(self, future: Any, message: dict[str, Any]) -> None:
        """A message a rank has broadcast: printed text, a display, or that it is idle again."""
        entry = self._by_message.get(future.msg_id)
        if entry is None:
            return
        pending, parts = entry
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            pending.add_output(content["name"], content["text"])
        elif kind in ("display_data", "execute_result"):
            pending.add_output("stdout", content["data"].get("text/plain", "") + "\n")
        elif kind == "status" and content["execution_state"] == "idle":
            parts.append("idle")
            self._settle(future.msg_id)

    def _on_reply(self, message: dict[str, Any]) -> None:
        number = message["parent_header"].get("msg_id", "")
        entry = self._by_message.get(number)
        if entry is not None:
            entry[1].append(message)
            self._settle(number)

    def _settle(self, number: str) -> None:
        """A request has ended when its reply and its last output are both here."""
        pending, parts = self._by_message[number]
        if len(parts) < 2:
            return
        message = next(part for part in parts if part != "idle")
        content = message["content"]
        plain = {**content["outcome"], "output": to_plain(tuple(pending.output))}
        buffers = [bytes(part) for part in message["buffers"]]
        pending.resolve(Reply(from_plain(plain), tuple(content["names"]), buffers, from_plain(content.get("findings", []))))

    # ---- the control channel
    def control(self, rank: int, op: str, payload: dict[str, Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        target = self._target(rank)
        if target is None:
            answer.set_exception(RankDead(f"rank {rank} is gone", hint="world.recover() replaces it", ranks=[rank]))
            return answer
        sent = self._client._send(
            self._client._control_stream, "labkit_control", content={"op": op, "payload": to_plain(payload)}, ident=target
        )
        with self._lock:
            asked = self._asked.setdefault(rank, set())
            asked.add(sent)

        def take(future: Any) -> None:
            asked.discard(future)
            _answer(answer, rank, future)

        sent.add_done_callback(take)
        return answer

    # ---- endings
    def rank_gone(self, rank: int) -> None:
        with self._lock:
            lost, unanswered = list(self._pending.get(rank, ())), list(self._asked.pop(rank, ()))
        for pending in lost:
            pending.fail("dead")
        for sent in unanswered:
            _resolve(sent)
        if rank in self.ids and not self._client._closed:
            self._client._send(self._client._query_socket, "unregistration_request", content={"id": rank})

    def close(self) -> None:
        if not self._client._closed:
            self._client.close(linger=0)


def _resolve(future: Any) -> None:
    """End a future of the client's that nobody waits for, so that the client drops what it holds of the message."""
    with suppress(InvalidStateError):
        future.set_result(None)


def _answer(answer: Future[Any], rank: int, sent: Any) -> None:
    if answer.done() or sent.result() is None:
        return
    content = sent.result()["content"]
    if "error" in content:
        error = from_plain(content["error"])
        answer.set_exception(ControlError(f"rank {rank}: {error}", hint="see world.status()", ranks=[rank]))
    else:
        answer.set_result(content.get("value"))


def _connect(folder: Path, timeout_s: float) -> Any:
    """A client, as soon as the controller has written both of its connection files whole."""
    files = [folder / "security" / f"ipcontroller-{side}.json" for side in ("client", "engine")]
    end = time.monotonic() + timeout_s
    while not all(_whole(file) for file in files):
        if time.monotonic() > end:
            raise StartError(f"the controller did not start in {timeout_s:g} s", hint="`labkit doctor` looks for the reason")
        time.sleep(0.005)
    info = json.loads(files[0].read_text())
    while True:  # on a busy machine a first question can get lost, and the client asks only once
        left = max(1, int(end - time.monotonic()))
        try:
            client = _Client(info, profile_dir=str(folder), timeout=min(ASK_AGAIN_S, left))
        except TimeoutError:
            if left <= ASK_AGAIN_S:
                raise StartError(
                    f"the controller did not answer in {timeout_s:g} s", hint="`labkit doctor` looks for the reason"
                ) from None
        else:
            client.session.digest_history_size = REMEMBERED
            return client


def _whole(file: Path) -> bool:
    try:
        json.loads(file.read_text())
    except (OSError, ValueError):
        return False
    return True
