"""The feed of the live picture: a beacon read in small pieces says what a whole read says."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from labkit.driver.feed import Seat
from labkit.instruments.watch import NEWEST, Live
from labkit.ring import SLOTS, RingReader, RingState, RingWriter, read_ring
from labkit.wire import Call, CallSite, CodeError, RankCard

SITE = CallSite("cell 7", 3, "<module>")


@pytest.fixture
def writer(tmp_path: Path) -> RingWriter:
    made = RingWriter(tmp_path / "rank-0.beacon", rank=0, pid=41)
    made.state(cell=7, activity="cell", now_s=1.0, started_s=1.0, generation=1)
    return made


def call(index: int, **changes: Any) -> Call:
    return Call(**{"index": index, "seq": index, "op": "all_reduce", "site": SITE, "cell": 7, "issued_s": 2.0, **changes})


def glance(tmp_path: Path) -> RingState:
    seen = RingReader(tmp_path / "rank-0.beacon").newest(NEWEST)
    assert seen is not None
    return seen


@pytest.mark.parametrize("count", [1, 3, SLOTS, SLOTS + 5])
def test_the_newest_call_is_that_of_a_whole_read(writer: RingWriter, tmp_path: Path, count: int) -> None:
    for index in range(1, count + 1):
        slot = writer.issue(call(index))
        if index < count:
            writer.finish(slot, index, "done", 3.0)
    seen, whole = glance(tmp_path), read_ring(tmp_path / "rank-0.beacon")
    assert whole is not None
    assert (seen.pid, seen.cell, seen.activity) == (whole.pid, whole.cell, whole.activity)
    assert seen.calls == whole.calls[-NEWEST:]
    assert (str(seen.calls[-1]), seen.calls[-1].state, seen.calls[-1].site) == (f"all_reduce #{count}", "issued", SITE)


def card_of(tmp_path: Path, broken: str = "") -> RankCard:
    world = PaperWorld(tmp_path, os.getpid())
    world.broken = broken
    return Live(world).look().cards[0]  # type: ignore[arg-type]


@pytest.fixture
def own_writer(tmp_path: Path) -> RingWriter:
    made = RingWriter(tmp_path / "rank-0.beacon", rank=0, pid=os.getpid())
    made.state(cell=7, activity="cell", now_s=1.0, started_s=1.0, generation=1)
    return made


def test_a_call_that_waits_is_found_behind_asynchronous_ones(own_writer: RingWriter, tmp_path: Path) -> None:
    own_writer.issue(call(1))
    own_writer.issue(call(2, op="broadcast", async_op=True))
    assert card_of(tmp_path).doing == "in all_reduce #1"


def test_states_and_phrases(tmp_path: Path, own_writer: RingWriter) -> None:
    def seen(broken: str = "") -> tuple[str, str, str]:
        card = card_of(tmp_path, broken)
        return card.state, card.doing, card.detail

    assert seen() == ("running", "running cell 7", "")
    slot = own_writer.issue(call(1, issued_s=time.monotonic() - 2.0))
    state, doing, detail = seen()
    assert (state, doing) == ("waiting", "in all_reduce #1")
    assert detail.startswith("cell 7, line 3, for 2.")
    assert seen("since cell 7")[:2] == ("stuck", "stuck in all_reduce #1")
    own_writer.finish(slot, 1, "done", 3.0)
    assert seen() == ("running", "running cell 7", "past all_reduce #1, line 3")
    own_writer.state(cell=7, activity="idle", now_s=4.0, started_s=1.0, generation=1)
    assert seen() == ("idle", "idle", "last call: all_reduce #1")
    (tmp_path / "rank-0.beacon").unlink()
    assert seen() == ("starting", "starting", "")


@pytest.mark.parametrize("content", [b"", b"x" * 40, b"y" * 200_000])
def test_a_file_that_is_no_beacon_is_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank-0.beacon").write_bytes(content)
    assert RingReader(tmp_path / "rank-0.beacon").newest(NEWEST) is None
    assert RingReader(tmp_path / "none").newest(NEWEST) is None


class PaperWorld:
    """One rank in this process's own pid, and what `Live` asks of a world."""

    world_size, backend, mode, generation, started_in_s = 1, "gloo", "raw", 1, 0.5

    def __init__(self, folder: Path, pid: int) -> None:
        self.broken, self.stopped = "", False
        self.seats, self.folder, self.launcher = [Seat(0, pid)], folder, "fork"
        self.error: CodeError | None = None

    def raised(self, rank: int) -> CodeError | None:
        return self.error


def test_cards_of_a_rank_that_runs_dies_and_is_stopped_with_its_world(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "rank-0.beacon", rank=0, pid=os.getpid())
    writer.issue(call(1))
    world = PaperWorld(tmp_path, os.getpid())
    live: Any = Live(world)  # type: ignore[arg-type]
    assert live == Live(world)  # type: ignore[arg-type]
    assert live.look().cards[0].state == "idle"
    writer.state(cell=7, activity="cell", now_s=1.0, started_s=1.0, generation=1)
    world.broken = "since cell 7"
    assert live.look().cards[0].doing == "stuck in all_reduce #1"
    assert "world.recover()" in live.look().note
    world.seats[0].exit_code = -9
    assert (live.look().cards[0].state, live.look().cards[0].detail) == ("dead", "exit code -9")
    world.stopped = True
    assert (live.over, live.look().cards[0].state, live.look().note) == (True, "ended", "the world is stopped")


def test_a_rank_that_raised_is_not_fine(tmp_path: Path) -> None:
    RingWriter(tmp_path / "rank-0.beacon", rank=0, pid=os.getpid())
    world = PaperWorld(tmp_path, os.getpid())
    world.error = CodeError("KeyError", "'y'", SITE)
    card = Live(world).look().cards[0]  # type: ignore[arg-type]
    assert (card.state, card.doing, card.detail) == ("raised", "raised KeyError", f"'y' ({SITE})")


def test_a_look_is_cheap(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "rank-0.beacon", rank=0, pid=os.getpid())
    for index in range(1, SLOTS + 1):
        writer.issue(call(index))
    live = Live(PaperWorld(tmp_path, os.getpid()))  # type: ignore[arg-type]
    live.look()
    took = []
    for _ in range(50):
        began = time.perf_counter()
        live.look()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.5e-3, "four ranks, ten times a second: under 2 % of one core"
