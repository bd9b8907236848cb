"""The beacon file against a model: whatever a rank writes, and whenever it dies, a reader sees the truth or less."""

from __future__ import annotations

import dataclasses
import math
import os
import stat
import struct
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from labkit import ring
from labkit.ring import SLOTS, RingReader, RingWriter, read_ring
from labkit.wire import Call, CallSite, dumps, loads

names = st.sampled_from(["all_reduce", "broadcast", "send", "größer", "x" * 200, ""])
seconds = st.floats(0, 1e9)
counts = st.integers(0, 2**32 - 1)
frames = st.builds(CallSite, st.sampled_from(["cell 1", "train.py", "日.py"]), counts, st.sampled_from(["", "step", "<module>"]))
sites = st.none() | frames
calls = st.builds(
    Call,
    index=st.just(0),
    seq=counts,
    op=names,
    group=st.sampled_from(["world", "evens"]),
    group_ranks=st.lists(st.integers(0, 99), max_size=4).map(tuple),
    shape=st.lists(st.integers(0, 4096), max_size=6).map(tuple),
    dtype=st.sampled_from(["", "float32"]),
    num_bytes=st.integers(0, 2**63),
    reduce_op=st.sampled_from(["", "SUM"]),
    root=st.integers(-1, 99),
    async_op=st.booleans(),
    site=sites,
    cell=counts,
    issued_s=seconds,
    algorithm=st.sampled_from(["", "ring"]),
    step=counts,
    move=counts,
    request_id=counts,
    planned=st.sampled_from(["", "1200 float32 sum"]),
    chain=st.lists(frames, max_size=5).map(tuple),
    tag=st.integers(-5, 2**31 - 1),
    splits=st.lists(st.integers(0, 2**40), max_size=8).map(tuple),
    asked=st.sampled_from(["", "gather_object"]),
    part=st.sampled_from(["", "DDP bucket 0 of step 3"]),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.beacon"


def write(path: Path, count: int, **fields: object) -> RingWriter:
    writer = RingWriter(path, rank=3, pid=77)
    for index in range(1, count + 1):
        writer.issue(Call(index, index, "all_reduce", **fields))  # type: ignore[arg-type]
    return writer


class BeaconAgainstModel(RuleBasedStateMachine):
    """The model is a list of calls, of which the last `SLOTS` must be readable at any moment."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "beacon"
        self.writer = RingWriter(self.path, rank=1, pid=42)
        self.model: list[Call] = []
        self.slots: list[int] = []
        self.fired = 0
        self.state: tuple[int, str, float, int] = (0, "idle", 0.0, 0)

    @rule(call=calls)
    def issue(self, call: Call) -> None:
        call = dataclasses.replace(call, index=len(self.model) + 1)
        self.model.append(call)
        self.slots.append(self.writer.issue(call))

    @rule(count=st.integers(SLOTS - 3, SLOTS + 3), call=calls)
    def issue_a_round(self, count: int, call: Call) -> None:
        for _ in range(count):
            self.issue(call)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), state=st.sampled_from(["done", "failed", "refused"]), now_s=seconds)
    def finish(self, data: st.DataObject, state: str, now_s: float) -> None:
        """Of any call ever issued: one whose slot has been reused changes nothing."""
        at = data.draw(st.integers(0, len(self.model) - 1))
        self.writer.finish(self.slots[at], at + 1, state, now_s)
        self.model[at] = dataclasses.replace(self.model[at], state=state, returned_s=now_s)

    @rule(begun=calls, call=calls)
    def begin_and_issue(self, begun: Call, call: Call) -> None:
        self.issue(dataclasses.replace(begun, state="begun"))
        call = dataclasses.replace(call, index=len(self.model))
        self.writer.issue_begun(self.slots[-1], call)
        self.model[-1] = call

    @rule(cell=counts, activity=st.sampled_from(ring.ACTIVITIES), started_s=seconds, generation=st.integers(0, 1000))
    def say(self, cell: int, activity: str, started_s: float, generation: int) -> None:
        self.writer.state(cell=cell, activity=activity, now_s=started_s, started_s=started_s, generation=generation)
        self.state = (cell, activity, started_s, generation)

    @rule()
    def fire(self) -> None:
        self.writer.fault_fired()
        self.fired += 1

    @invariant()
    def a_reader_sees_the_model(self) -> None:
        seen = read_ring(self.path)
        assert seen is not None
        assert seen.calls == tuple(self.model[-SLOTS:])
        assert (seen.pid, seen.rank, seen.count, seen.fired) == (42, 1, len(self.model), self.fired)
        assert (seen.cell, seen.activity, seen.cell_started_s, seen.generation) == self.state

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.writer.close()
            self.folder.cleanup()


TestBeaconAgainstModel = BeaconAgainstModel.TestCase
TestBeaconAgainstModel.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


@settings(max_examples=60)
@given(done=st.integers(0, ring._BODY.size), wrapped=st.booleans())
def test_a_rank_that_dies_in_the_middle_of_a_write_leaves_the_others_readable(done: int, wrapped: bool) -> None:
    """Die after `done` bytes of a call's body: that call is left out, all others are there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beacon"
        before = SLOTS + 4 if wrapped else 5
        writer = write(path, before, site=CallSite("cell 1", 1))
        old = path.read_bytes()
        slot = writer.issue(Call(before + 1, 9, "broadcast", site=CallSite("cell 2", 2)))
        at = ring._RING_AT + slot * ring._SLOT_BYTES
        torn = bytearray(path.read_bytes())
        torn[at : at + 8] = bytes(8)
        torn[at + 8 + done : at + ring._SLOT_BYTES] = old[at + 8 + done : at + ring._SLOT_BYTES]
        path.write_bytes(torn)
        seen = read_ring(path)
        writer.close()
    assert seen is not None
    assert [call.index for call in seen.calls] == list(range(max(1, before + 2 - SLOTS), before + 1))
    assert {call.op for call in seen.calls} == {"all_reduce"}


@given(first=st.integers(0, 9), last=st.integers(0, 9))
def test_a_slot_counts_only_if_its_two_numbers_agree(first: int, last: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beacon"
        write(path, 1).close()
        data = bytearray(path.read_bytes())
        struct.pack_into("<Q", data, ring._RING_AT, first)
        struct.pack_into("<Q", data, ring._RING_AT + 8 + ring._BODY.size - 8, last)
        path.write_bytes(data)
        seen = read_ring(path)
    assert seen is not None
    assert len(seen.calls) == (first == last != 0)


def test_the_body_fits_its_slot_and_the_header_its_place() -> None:
    assert 8 + ring._BODY.size <= ring._SLOT_BYTES
    assert ring._HEADER.size <= ring._RING_AT


def test_the_ring_wraps_and_keeps_the_newest(path: Path) -> None:
    write(path, 2 * SLOTS + 7).close()
    seen = read_ring(path)
    assert seen is not None
    assert [call.index for call in seen.calls] == list(range(SLOTS + 8, 2 * SLOTS + 8))
    assert seen.count == 2 * SLOTS + 7


def test_finishing_a_call_whose_slot_was_reused_changes_nothing(path: Path) -> None:
    writer = write(path, SLOTS + 1)
    writer.finish(0, 1, "failed", 5.0)
    seen = read_ring(path)
    assert seen is not None
    assert {call.state for call in seen.calls} == {"issued"}


def test_a_full_string_table_loses_names_but_no_call(path: Path) -> None:
    writer = RingWriter(path, rank=0, pid=1)
    for index in range(1, 101):
        writer.issue(Call(index, index, "all_reduce", group=f"{index}" * 1000, shape=(index,)))
    seen = read_ring(path)
    assert seen is not None
    assert [call.seq for call in seen.calls] == list(range(1, 101))
    assert {call.op for call in seen.calls} == {"all_reduce"}
    assert seen.calls[-1].group == ""
    assert seen.calls[0].group.startswith("111")


def test_more_than_six_dimensions_are_cut_not_refused(path: Path) -> None:
    RingWriter(path, rank=0, pid=1).issue(Call(1, 1, "all_reduce", shape=(1, 2, 3, 4, 5, 6, 7)))
    seen = read_ring(path)
    assert seen is not None
    assert seen.calls[0].shape == (1, 2, 3, 4, 5, 6)


def test_the_file_outlives_its_writer_and_is_private(path: Path) -> None:
    write(path, 2).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    seen = read_ring(path)
    assert seen is not None
    assert len(seen.calls) == 2


def test_a_new_writer_starts_an_old_file_anew(path: Path) -> None:
    write(path, 5).close()
    RingWriter(path, rank=0, pid=2).close()
    seen = read_ring(path)
    assert seen is not None
    assert (seen.calls, seen.pid) == ((), 2)


@pytest.mark.parametrize("data", [b"", b"LABKIT1\0", b"LABKIT9\0" + bytes(ring.FILE_BYTES), bytes(ring.FILE_BYTES)])
def test_a_file_that_is_no_beacon_reads_as_none(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert read_ring(path) is None


def test_a_missing_file_reads_as_none(path: Path) -> None:
    assert read_ring(path) is None


def test_fired_is_on_disk_at_once(path: Path) -> None:
    writer = RingWriter(path, rank=0, pid=1)
    writer.fault_fired()
    seen = read_ring(path)
    assert seen is not None
    assert seen.fired == 1


# ---- damaged files: fault of a disk, of a wild write, of a half copy
def a_full_beacon(path: Path) -> bytes:
    """Two cells' calls in world and subgroup, some finished."""
    writer = RingWriter(path, rank=1, pid=os.getpid())
    writer.state(cell=4, activity="cell", now_s=5.0, started_s=4.0, generation=2)
    for index in range(1, 41):
        group, ranks = ("world", (0, 1)) if index % 3 else ("evens", (0, 2))
        made = Call(
            index, index, "all_reduce", group, ranks, (2, 3), "float32", 24, "sum",
            site=CallSite("cell 4", index, "<module>"), cell=4, issued_s=5.0,
        )  # fmt: skip
        slot = writer.issue(made)
        if index < 40:
            writer.finish(slot, index, "done", 6.0)
    writer.close()
    return path.read_bytes()


damages = st.lists(
    st.tuples(
        st.one_of(
            st.integers(0, ring._HEADER.size - 1),
            st.integers(ring._RING_AT, ring._RING_AT + 40 * ring._SLOT_BYTES),
            st.integers(ring._STRINGS_AT, ring._STRINGS_AT + 200),
        ),
        st.binary(min_size=1, max_size=8),
    ),
    max_size=12,
)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(damages=damages, cut=st.none() | st.integers(0, ring.FILE_BYTES + 100))
def test_a_damaged_beacon_reads_as_what_can_be_true(damages: list[tuple[int, bytes]], cut: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beacon"
        data = bytearray(a_full_beacon(path))
        for at, content in damages:
            data[at : at + len(content)] = content
        path.write_bytes(data[:cut])
        whole, newest, beat_s = read_ring(path), RingReader(path).newest(4), ring.read_beat(path)
    assert math.isfinite(beat_s)
    for seen in (whole, newest):
        if seen is not None:
            assert seen.activity in ring.ACTIVITIES
            assert math.isfinite(seen.beat_s)
            assert loads(dumps(seen.calls)) == seen.calls
    if whole is not None and newest is not None and newest.calls:
        assert set(newest.calls) <= set(whole.calls)


@given(data=st.binary(max_size=300), filled=st.booleans())
def test_any_bytes_are_read_without_an_error(data: bytes, filled: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beacon"
        path.write_bytes(b"LABKIT4\0" + data + (os.urandom(ring.FILE_BYTES) if filled else b""))
        for seen in (read_ring(path), RingReader(path).newest(300)):
            assert seen is None or seen.activity in ring.ACTIVITIES
        assert math.isfinite(ring.read_beat(path))


def test_a_header_with_an_unknown_activity_is_no_header(path: Path) -> None:
    """It used to end `world.diagnose()` with an IndexError."""
    data = bytearray(a_full_beacon(path))
    for activity in (2, 77, -1):
        struct.pack_into("<i", data, 24, activity)
        path.write_bytes(data)
        assert read_ring(path) is None
        assert RingReader(path).newest(4) is None


@pytest.mark.parametrize("place", [8 + 8, 8 + 12, 8 + 16, 8 + 20], ids=["op", "group", "members", "shape"])
def test_a_call_with_a_text_that_cant_be_is_left_out(path: Path, place: int) -> None:
    data = bytearray(a_full_beacon(path))
    struct.pack_into("<I", data, ring._RING_AT + place, ring._STRINGS_BYTES + 5)
    path.write_bytes(data)
    seen = read_ring(path)
    assert seen is not None
    assert [call.index for call in seen.calls] == list(range(2, 41))


@pytest.mark.parametrize("text", ["7 0 3 0", "0 0 3", "x y z w", "-9 0 3 0", "0 0 -3 0"])
def test_a_call_with_a_damaged_chain_is_left_out(path: Path, text: str) -> None:
    """A frame that names itself, or one further in, as its outer one would lead in a circle."""
    writer = RingWriter(path, rank=0, pid=1)
    writer.issue(Call(1, 1, "all_reduce", chain=(CallSite("cell 1", 1),)))
    data = bytearray(path.read_bytes())
    at = data.index(b"0 %d 1 0" % writer._strings["cell 1"])
    data[at - 2 : at + len(text)] = struct.pack("<H", len(text)) + text.encode()
    path.write_bytes(data)
    seen = read_ring(path)
    assert seen is not None
    assert not seen.calls or text == "0 0 3 0"


def test_a_look_at_a_whole_beacon_is_cheap(path: Path) -> None:
    write(path, SLOTS, site=CallSite("cell 1", 1)).close()
    took = []
    for _ in range(20):
        began = time.perf_counter()
        read_ring(path)
        took.append(time.perf_counter() - began)
    assert min(took) < 10e-3
