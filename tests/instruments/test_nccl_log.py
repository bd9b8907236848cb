"""How a world gives NCCL's log: whose setting counts, which file a rank names, which files are read; no GPU, no NCCL."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.backends import find
from labkit.backends.nccl import nccl_environment
from labkit.errors import UsageError
from labkit.instruments.nccl_log import nccl_log
from labkit.rank.backends import make_backend
from labkit.testing import Script

LINE = "host:{pid}:2 [0] NCCL INFO AllReduce: {size} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}\n"
OURS = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "LABKIT_NCCL_LOG"}


def world(folder: Path, **changes: Any) -> Any:
    (folder / "log").mkdir()
    return SimpleNamespace(**{"backend": "nccl", "world_size": 2, "stopped": False, "folder": folder, **changes})


# ---- whose setting counts
def test_nccl_is_asked_for_what_is_read_and_not_for_each_call_of_each_rank() -> None:
    env = nccl_environment(2, 2)
    assert env.keys() >= OURS
    assert env["NCCL_DEBUG_SUBSYS"].split(",") == ["INIT", "GRAPH", "TUNING"]


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"])
def test_a_log_that_the_user_asks_for_is_the_users(name: str) -> None:
    env = nccl_environment(2, 2, user={name: "x"})
    assert "LABKIT_NCCL_LOG" not in env
    assert "NCCL_DEBUG_SUBSYS" not in env
    assert env.get("NCCL_DEBUG") == (None if name == "NCCL_DEBUG" else "WARN")


# ---- which file a rank names
def test_a_rank_names_its_file_before_nccl_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABKIT_NCCL_LOG", "1")
    monkeypatch.setenv("NCCL_DEBUG_FILE", "")
    monkeypatch.delenv("NCCL_DEBUG_FILE")
    make_backend("nccl").start(tmp_path / "50%", 3)
    named = os.environ["NCCL_DEBUG_FILE"]
    assert named == f"{tmp_path}/50%%/log/nccl-3.%p.log"  # NCCL puts the pid for %p, and % for %%
    assert Path(named.replace("%p", "77").replace("%%", "%")).match(find("nccl").log_pattern.format(rank=3, pid="*"))


def test_a_rank_leaves_a_users_file_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCCL_DEBUG_FILE", "mine")
    monkeypatch.setenv("LABKIT_NCCL_LOG", "1")
    make_backend("nccl").start(tmp_path, 0)
    assert os.environ["NCCL_DEBUG_FILE"] == "mine"
    monkeypatch.delenv("NCCL_DEBUG_FILE")
    monkeypatch.delenv("LABKIT_NCCL_LOG")
    make_backend("nccl").start(tmp_path, 0)
    assert "NCCL_DEBUG_FILE" not in os.environ


# ---- which files are read
def test_the_files_of_all_ranks_are_read_and_of_a_replaced_one_the_newest(tmp_path: Path) -> None:
    nccl = world(tmp_path)
    for rank, pid, size, age_s in ((0, 11, 8, 0), (1, 12, 16, 60), (1, 13, 32, 0), (10, 14, 64, 0)):
        file = tmp_path / "log" / f"nccl-{rank}.{pid}.log"
        file.write_text(LINE.format(pid=pid, size=size))
        os.utime(file, (time.time() - age_s,) * 2)
    assert [choice.num_bytes for choice in nccl_log(nccl).of("all_reduce")] == [8, 32]


def test_no_log_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nccl = world(tmp_path)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    with pytest.raises(UsageError, match="unset NCCL_DEBUG, and start the world anew"):
        nccl_log(nccl)
    monkeypatch.delenv("NCCL_DEBUG")
    with pytest.raises(UsageError, match="comes with the first collective"):
        nccl_log(nccl)


def test_a_gloo_world_says_why_not_and_where_to_look() -> None:
    gloo = Script(ranks=2).world()
    with pytest.raises(UsageError, match=r"gloo keeps no log of its choices, NCCL does; .*recorded\(\)"):
        gloo.nccl_log()
    gloo.stop()
    with pytest.raises(UsageError, match="stopped"):
        gloo.nccl_log()
