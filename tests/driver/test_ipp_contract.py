"""The private parts of ipyparallel that driver/ipp.py rests on are there, and do what it relies on."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import ipyparallel as ipp
import pytest

from labkit.driver.ipp import IppTransport
from labkit.driver.transport import Pending
from labkit.errors import DeadlineExceeded
from labkit.wire import Outcome

NAMES = (
    "_send _update_engines _queue_handlers _futures _query_socket _control_stream _mux_stream _registration_callbacks _engines "
    "_ids _closed metadata"
).split()


def test_it_is_the_version_these_parts_were_read_in() -> None:
    assert version("ipyparallel").startswith("9.2.")


def test_the_controllers_only_use_of_time_is_the_pause_that_is_left_out() -> None:
    source = inspect.getsource(importlib.import_module("ipyparallel.controller.app"))
    assert re.findall(r"\btime\b[.(]\S*", source) == ["time.sleep(0.25)"]


def test_no_engine_imports_a_debugger_once_the_module_is_there_without_one() -> None:
    program = (
        "import sys; sys.modules['debugpy'] = None; import ipykernel.debugger; del sys.modules['debugpy'];"
        "from ipykernel.ipkernel import IPythonKernel; from labkit.rank import forkserver;"
        "assert IPythonKernel.debugger_class; print([name for name in sys.modules if 'debugpy' in name or 'pydevd' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_message_takes_content_buffers_a_target_and_a_hook() -> None:
    parameters = inspect.signature(ipp.Client._send).parameters
    assert {"content", "ident", "buffers", "message_future_hook"} <= set(parameters)
    assert list(parameters)[1:3] == ["socket", "msg_type"]


def test_what_is_looked_for_in_a_client_is_set_in_its_source() -> None:
    source = inspect.getsource(ipp.Client)
    assert [name for name in NAMES if name not in source] == []


# ---- on a real controller, with two ranks
@pytest.fixture
def transport(world_of) -> IppTransport:
    return world_of(2).core.cluster.transport


@pytest.fixture
def client(transport: IppTransport) -> ipp.Client:
    return transport._client


def live(test):
    return pytest.mark.gloo(pytest.mark.timeout(90)(test))


def outcome(pending: Pending) -> Outcome:
    return pending.future.result(20).outcome


@live
def test_the_parts_are_there(client: ipp.Client) -> None:
    assert [name for name in NAMES if not hasattr(client, name)] == []
    assert isinstance(client.metadata, defaultdict) or client.metadata["new"] is not None, "asking for metadata makes it"
    assert callable(client._registration_callbacks.append)


@live
def test_an_engines_id_is_the_rank_it_was_started_as(transport: IppTransport, client: ipp.Client) -> None:
    assert transport.ids == {0, 1} == set(client._ids)
    assert [outcome(transport.request(rank, "ping", {})).value["rank"] for rank in (0, 1)] == [0, 1]


@live
def test_a_message_of_our_own_kind_comes_back_to_our_handler_and_leaves_nothing(
    transport: IppTransport, client: ipp.Client
) -> None:
    waiting, futures = len(transport._by_message), len(client._futures)
    pending = transport.request(0, "push", {"values": {"a": "[1]"}, "arrays": {}}, buffers=[])
    assert outcome(pending).ok
    assert len(transport._by_message) == waiting
    end_s = time.monotonic() + 5
    while len(client._futures) > futures and time.monotonic() < end_s:
        time.sleep(0.01)
    assert len(client._futures) == futures
    assert not transport._pending.get(0)


@live
def test_raw_buffers_travel_both_ways(transport: IppTransport) -> None:
    form = {"dtype": "<i4", "shape": [3]}
    data = b"\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff"
    assert outcome(transport.request(1, "push", {"values": {}, "arrays": {"b": form}}, buffers=[data])).ok
    reply = transport.request(1, "pull", {"name": "b"}).future.result(20)
    assert reply.buffers == [data]


@live
def test_an_answer_waits_for_all_that_was_printed_before_it(transport: IppTransport) -> None:
    code = "for i in range(2000):\n    print(i, '.' * 100)"
    pieces: list[str] = []
    pending = transport.request(0, "cell", {"code": code, "cell": 901}, on_output=lambda rank, name, text: pieces.append(text))
    text = "".join(stream.text for stream in outcome(pending).output)
    assert text == "".join(pieces)
    assert text.count("\n") == 2000


@live
def test_the_control_channel_answers_while_the_main_thread_is_busy(transport: IppTransport) -> None:
    pending = transport.request(0, "cell", {"code": "import time; time.sleep(0.8)", "cell": 902})
    time.sleep(0.2)
    state = transport.control(0, "state", {}).result(0.5)
    assert (state["busy"], state["cell"]) == (True, 902)
    assert not pending.done
    assert outcome(pending).ok


@live
def test_an_id_that_was_given_back_can_be_taken_again(world_of) -> None:
    world = world_of(2)
    cluster = world.core.cluster
    heard = threading.Event()
    cluster.transport._client._registration_callbacks.append(lambda event: heard.set())
    before = cluster.transport._client._engines[1]
    cluster.end_ranks([1])
    assert cluster.transport.ids == {0}
    assert outcome(cluster.transport.request(1, "ping", {})).status == "dead"
    cluster.start_ranks([1])
    assert cluster.transport.ids == {0, 1}
    assert cluster.transport._client._engines[1] != before
    assert heard.is_set()
    assert world.recover(force=True).rung == "soft"


@live
def test_a_rank_whose_announcement_was_missed_is_found(transport: IppTransport) -> None:
    client = transport._client
    known = client._engines.pop(1)
    client._ids.remove(1)
    transport.wait_for_ranks([0, 1], 5.0)
    assert client._engines[1] == known
    assert outcome(transport.request(1, "ping", {})).ok


@live
def test_a_rank_that_is_not_there_is_named_in_time(transport: IppTransport) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"rank 7 did not come up in 0\.5 s"):
        transport.wait_for_ranks([0, 7], 0.5)
    assert time.monotonic() - began < 2


EVIL = """
import os, pickle
class Evil:
    def __reduce__(self):
        return (os.mkdir, ({path!r},))
kernel = get_ipython().kernel
parts = [pickle.dumps(Evil())]
kernel.session.send(
    kernel.iopub_socket, "data_message", content={{}}, parent=kernel.get_parent(), buffers=parts, ident=b"datapub"
)
"""


@live
def test_nothing_that_a_rank_sends_is_unpickled(transport: IppTransport, tmp_path: Path) -> None:
    path = tmp_path / "made-by-a-pickle"
    sent = outcome(transport.request(0, "cell", {"code": EVIL.format(path=str(path)), "cell": 903}))
    assert sent.ok, sent.error
    assert outcome(transport.request(0, "ping", {})).ok, "whatever came was taken in before this answer"
    assert not path.exists()


@live
def test_the_attack_would_work_on_a_plain_client(world_of, tmp_path: Path) -> None:
    cluster = world_of(2).core.cluster
    path = tmp_path / "made-by-a-pickle"
    info = json.loads((cluster.folder.path / "security" / "ipcontroller-client.json").read_text())
    with ipp.Client(info, timeout=10) as plain:
        plain[0].execute(EVIL.format(path=str(path)), block=False).wait(10)
        end_s = time.monotonic() + 5
        while not path.exists() and time.monotonic() < end_s:
            time.sleep(0.02)
    assert path.exists()
