"""Reaching the controller: one that never answers ends in a StartError, not in a library's own words."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.driver import ipp
from labkit.errors import StartError

PORTS = ("registration", "mux", "task", "broadcast", "notification", "control", "iopub", "hb_ping", "hb_pong")


@pytest.fixture
def silent() -> Iterator[int]:
    """A port at which somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_controller_that_does_not_answer(silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = {"interface": "tcp://127.0.0.1", "location": "127.0.0.1", "ssh": "", "key": "k", "pack": "json", "unpack": "json"}
    info |= {"signature_scheme": "hmac-sha256", "curve_serverkey": None, "task_scheme": "none", **dict.fromkeys(PORTS, silent)}
    (tmp_path / "security").mkdir()
    for side in ("client", "engine"):
        (tmp_path / "security" / f"ipcontroller-{side}.json").write_text(json.dumps(info))
    monkeypatch.setattr(ipp, "ASK_AGAIN_S", 1)
    with pytest.raises(StartError, match="did not answer in 2 s"):
        ipp._connect(tmp_path, 2.0)


def test_a_controller_that_never_wrote_its_files(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"did not start in 0\.1 s"):
        ipp._connect(tmp_path, 0.1)
