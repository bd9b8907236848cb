"""Records read back as they were, whatever is in them, and also from an older or a newer side."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import plain as plain_form
from labkit import wire
from labkit.errors import LabkitError, WireError
from labkit.wire import Call, CallSite, Evidence, Frame, RankView, TensorSample, TensorTable

KINDS = sorted(
    (kind for kind in plain_form._KINDS.values() if vars(wire).get(kind.__name__) is kind), key=lambda kind: kind.__name__
)

texts = st.text(max_size=12)
keys = texts.filter(lambda text: text != wire.KIND)
numbers = st.floats(allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts, int: st.integers(-(2**31), 2**63 - 1), float: numbers, bool: st.booleans(), type(None): st.none(), Any: plain,
}  # fmt: skip


def values(hint: Any) -> st.SearchStrategy[Any]:
    """All values that a field of this type may hold."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        assert inner[1:] == (Ellipsis,)
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        assert inner[0] is str, "JSON makes every key a text"
        return st.dictionaries(keys, values(inner[1]), max_size=2)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(one) for one in inner])
    assert dataclasses.is_dataclass(hint)
    return st.deferred(lambda: records(hint))


def records(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_record_reads_back(kind: type) -> None:
    @given(records(kind))
    def round_trip(record: Any) -> None:
        assert wire.loads(wire.dumps(record)) == record

    round_trip()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_record_is_frozen_and_says_what_it_is(kind: type) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert (kind.__doc__ or "").strip()
    assert not (kind.__doc__ or "").startswith(f"{kind.__name__}(")  # what dataclass writes if we don't


def test_numbers_that_json_does_not_know_survive() -> None:
    read = wire.loads(wire.dumps(RankView(rank=0, cell_started_s=math.nan, last_progress_s=-math.inf)))
    assert math.isnan(read.cell_started_s)
    assert read.last_progress_s == -math.inf


def test_a_newer_side_may_send_fields_that_are_unknown_here() -> None:
    sent = {**wire.to_plain(CallSite("cell 7", 3)), "column": 9}
    assert wire.from_plain(sent) == CallSite("cell 7", 3)


def test_an_older_side_may_leave_fields_out() -> None:
    assert wire.from_plain({"$": "RankView", "rank": 2}) == RankView(rank=2)


def test_both_directions_work_on_records_inside_plain_values() -> None:
    value = {"sites": (CallSite("a.py", 1), CallSite("cell 2", 3, "f")), "count": 2}
    assert wire.from_plain(json.loads(json.dumps(wire.to_plain(value)))) == value


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"$": "Unheard"}', b"\xff\xfe"])
def test_what_is_not_a_record_is_a_wire_error_with_a_next_step(text: str | bytes) -> None:
    with pytest.raises(WireError) as caught:
        wire.loads(text)
    assert caught.value.hint


@given(plain)
def test_any_json_reads_or_is_refused(value: Any) -> None:
    assert wire.loads(json.dumps(value)) == value


def test_a_learners_dict_may_have_any_key() -> None:
    assert wire.loads(wire.dumps({"$": "price"})) == {"$": "price"}


@pytest.mark.parametrize("text", ['{"$": "Frame"}', '{"$": []}', "[" * 100_000], ids=["fields", "kind", "depth"])
def test_a_damaged_record_is_a_wire_error(text: str) -> None:
    with pytest.raises(WireError):
        wire.loads(text)


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        ({"$": "CallSite", "file": "a.py", "line": "3"}, "a damaged CallSite: expected int, got str at line"),
        ({"$": "RankView", "rank": 0, "calls": [{"$": "CallSite", "file": "", "line": 1}]}, "a damaged RankView.*calls"),
        ({"$": "RankView", "rank": True}, "expected int, got bool at rank"),
        ({"$": "dict", "items": [1]}, "a damaged dict"),
    ],
)
def test_a_field_of_another_type_is_a_wire_error_that_names_it(plain: dict[str, Any], says: str) -> None:
    with pytest.raises(WireError, match=says):
        wire.from_plain({"around": [plain]})


@pytest.mark.parametrize("value", [10**30, "\ud800"])
def test_a_strict_reader_refuses_what_no_file_of_ours_holds(value: Any) -> None:
    text = wire.dumps({"x": value})
    assert wire.loads(text) == {"x": value}
    with pytest.raises(WireError):
        wire.loads(text, strict=True)


def test_ranks_as_keys_come_back_as_numbers() -> None:
    sent = wire.from_plain(json.loads(json.dumps(wire.to_plain({0: "a", 10: "b"}))))
    assert wire.int_keys(sent) == {0: "a", 10: "b"}


@pytest.mark.parametrize(
    ("site", "cell", "text"),
    [
        (CallSite("cell 7", 3), "7", "cell 7, line 3"),
        (CallSite("/home/me/train.py", 12), "", "train.py, line 12"),
        (CallSite("C:\\me\\train.py", 12), "", "train.py, line 12"),
        (CallSite("cell 30.2", 3), "30.2", "cell 30.2, line 3"),
        (CallSite("cell seven", 1), "", "cell seven, line 1"),
    ],
)
def test_a_site_reads_like_a_person_would_say_it(site: CallSite, cell: str, text: str) -> None:
    assert (site.cell, str(site)) == (cell, text)


def test_a_rank_waits_in_its_newest_open_call_that_blocks() -> None:
    done = Call(1, 1, "broadcast", state="done")
    stuck = Call(2, 2, "all_reduce")
    behind = Call(3, 3, "all_reduce", async_op=True)
    assert RankView(0, calls=(done, stuck, behind)).waiting_in == stuck
    assert RankView(0, calls=(done, behind)).waiting_in is None


def test_the_line_of_a_rank_is_the_innermost_of_a_cell() -> None:
    stack = (Frame("runner.py", 9, "main"), Frame("cell 4", 2, "<module>"), Frame("cell 3", 8, "step"), Frame("torch.py", 1, "f"))
    assert str(RankView(0, stack=stack).line) == "cell 3, line 8"
    assert RankView(0, stack=stack[:1]).line is None


def test_evidence_quotes_the_line_or_nothing() -> None:
    evidence = Evidence(2, sources={"7": "a = 1\n  dist.barrier()\n"})
    assert evidence.source_line(CallSite("cell 7", 2)) == "dist.barrier()"
    for site in (None, CallSite("x.py", 1), CallSite("cell 7", 0), CallSite("cell 7", 3), CallSite("cell 8", 1)):
        assert evidence.source_line(site) == ""


def sample(rank: int, digest: str, shape: tuple[int, ...] = (2, 3)) -> TensorSample:
    return TensorSample(rank, "x", shape, "float32", "cpu", 24, (1.0,) * 6, tuple(range(6)), digest=digest)


def test_tensors_are_identical_only_bit_by_bit_and_in_shape() -> None:
    assert TensorTable("x", (sample(0, "a"), sample(1, "a"))).identical
    assert not TensorTable("x", (sample(0, "a"), sample(1, "b"))).identical
    assert not TensorTable("x", (sample(0, "a"), sample(1, "a", (3, 2)))).identical


def test_a_sample_knows_whether_it_is_all() -> None:
    assert not sample(0, "a").sampled
    assert sample(0, "a", (100, 100)).sampled
    assert sample(0, "a", ()).num_elements == 1


def test_wire_errors_are_ours() -> None:
    assert issubclass(WireError, LabkitError)
