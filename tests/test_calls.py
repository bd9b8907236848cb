"""One comparison of two calls: safe mode, the judge and the early end of a cell can't disagree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.calls import Aspect, other_lines, parties
from labkit.diagnosis import contradiction, judge
from labkit.rank.contract import difference, fingerprint
from labkit.wire import Call, CallSite, Evidence, RankView, loads

OPS = ("all_reduce", "broadcast", "gather", "scatter", "all_gather", "all_to_all_single", "barrier", "reduce_scatter_tensor")
SHAPES = ((), (4,), (8,), (2, 4), (4, 2), (1, 8), (2, 2, 2), (1, 2, 1, 4), (2,) * 7)
CODES = {Aspect.OP: {"LK004"}, Aspect.SIZE: {"LK005"}, Aspect.SHAPE: {"LK005"}, Aspect.ROOT: {"LK006"}, Aspect.NONE: set()}


def call(**fields: Any) -> Call:
    made = Call(1, 1, "all_reduce", shape=(8,), dtype="float32", group_ranks=(0, 1, 2, 3), cell=1, issued_s=1.0, returned_s=1.1)
    return replace(made, **{"num_bytes": 32, **fields})


calls = st.builds(
    call,
    op=st.sampled_from(OPS),
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(["float32", "int64"]),
    reduce_op=st.sampled_from(["", "sum", "max"]),
    root=st.sampled_from([-1, 0, 1]),
)
columns = st.lists(calls, min_size=2, max_size=4).map(lambda made: dict(enumerate(made)))
# mostly alike, so that single fields differ
near = st.tuples(
    calls, st.lists(calls, min_size=1, max_size=3), st.sampled_from(["op", "shape", "dtype", "reduce_op", "root"])
).map(
    lambda made: {0: made[0], **{i: replace(made[0], **{made[2]: getattr(o, made[2])}) for i, o in enumerate(made[1], start=1)}}
)


def ended(column: dict[int, Call], state: str) -> Evidence:
    """The evidence of a cell that ended with these calls."""
    views = [RankView(rank, pid=1, cell=1, calls=(replace(one, state=state),), generation=1) for rank, one in column.items()]
    return Evidence(len(column), cell=1, targets=tuple(column), taken_s=2.0, ranks=tuple(views))


@given(st.one_of(columns, near))
def test_safe_mode_and_the_judge_say_the_same(column: dict[int, Call]) -> None:
    column = {rank: replace(one, group_ranks=tuple(column)) for rank, one in column.items()}
    aspect, _ = parties(column)
    travelled = {rank: loads(fingerprint(one)) for rank, one in column.items()}
    assert bool(difference(travelled)) == bool(aspect)
    for state in ("done", "refused"):
        codes = {verdict.code for verdict in judge(ended(column, state))}
        assert codes == CODES[aspect] or (state == "refused" and not aspect), (aspect, codes)


@given(st.one_of(columns, near))
def test_only_what_can_t_complete_ends_a_cell_early(column: dict[int, Call]) -> None:
    issued = {rank: replace(one, state="issued", returned_s=0.0, group_ranks=tuple(column)) for rank, one in column.items()}
    views = tuple(RankView(rank, activity="call", cell=1, calls=(one,), generation=1) for rank, one in issued.items())
    found = contradiction(Evidence(len(column), cell=1, targets=tuple(column), taken_s=1.01, ranks=views))
    assert (found is not None) == (parties(issued)[0] in (Aspect.OP, Aspect.SIZE))


def test_a_gather_of_two_sizes_is_refused_as_it_is_judged() -> None:
    column = {0: call(op="gather", root=0), 1: call(op="gather", root=0, shape=(4,), num_bytes=16)}
    assert "rank 1: gather with shape [4]" in difference(column)
    assert [verdict.code for verdict in judge(ended(column, "done"))] == ["LK005"]


def test_a_transposed_tensor_is_told_in_both_modes_and_a_flat_one_in_none() -> None:
    column = {0: call(shape=(2, 4)), 1: call(shape=(4, 2))}
    (verdict,) = judge(ended(column, "done"))
    assert (verdict.code, verdict.ending) == ("LK005", "silent")
    assert difference(column)
    flat = {0: call(shape=(2, 4)), 1: call(shape=(8,))}
    assert difference(flat) == ""
    assert judge(ended(flat, "done")) == ()


@pytest.mark.parametrize("op", ["all_to_all_single", "barrier"])
def test_sizes_that_may_differ(op: str) -> None:
    assert parties({0: call(op=op), 1: call(op=op, shape=(4,))})[0] == Aspect.NONE


def test_other_lines_count_only_where_the_source_has_every_rank_pass_them() -> None:
    column = {rank: call(site=CallSite("cell 1", 2 + (rank == 2))) for rank in range(3)}
    assert other_lines(column, lambda calls: True) == [(0, 1), (2,)]
    assert other_lines(column, lambda calls: False) == []
    joined = {rank: replace(one, part="DDP's buffers" if rank else "the Join context") for rank, one in column.items()}
    assert other_lines(joined, lambda calls: True) == []
    assert other_lines({**joined, 1: column[1]}, lambda calls: True) == [(0, 1), (2,)]  # the learner's own call is not Join's
    assert other_lines({0: call(site=None), 1: call(site=CallSite("cell 1", 2))}, lambda calls: True) == []
    both = "x = 1\ndist.all_reduce(a)\ndist.all_reduce(b)\n"
    branch = "if rank == 2:\n    x = 0; dist.all_reduce(a)\nelse: dist.all_reduce(b)\n"
    assert "cell 1, line 3" in difference(column, lambda file: both)
    assert difference(column, lambda file: branch) == ""
