"""Whatever ranks have done, the picture is drawn: every call has its place, and only culprits are marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labkit.callgrid import CallGrid
from labkit.diagnosis import judge
from labkit.diagnosis.grid import ROOM, call_grid
from labkit.plain import dumps, loads
from labkit.still import compose
from labkit.views import to_html, to_text
from labkit.wire import Call, CallSite, Evidence, RankView

from .build import World
from .test_mutations import slips

OPS = ("all_reduce", "broadcast", "barrier", "all_gather_into_tensor", "send", "recv", "new_group", "something_else")


@st.composite
def calls(draw: st.DrawFn, ranks: int) -> tuple[Call, ...]:
    """A beacon's calls, as they may be and as no program makes them."""
    line, seqs = [], {"world": 0, "pair": 0, "new groups": 0}
    for index in range(1, 1 + draw(st.integers(0, 9))):
        op = draw(st.sampled_from(OPS))
        group = "new groups" if op == "new_group" else draw(st.sampled_from(["world", "world", "pair"]))
        p2p = op in ("send", "recv")
        seqs[group] += not p2p and draw(st.sampled_from([1, 1, 1, 2]))
        seq = 0 if p2p else max(seqs[group], 1)
        members = tuple(range(ranks)) if group == "world" else (0, 1)
        site = draw(st.none() | st.builds(CallSite, st.just("cell 1"), st.integers(1, 4)))
        state = draw(st.sampled_from(["issued", "done", "done", "failed", "refused", "begun"]))
        line.append(
            Call(
                index, seq, op, group, members, draw(st.sampled_from([(), (4,), (2, 2)])), draw(st.sampled_from(["float32", ""])),
                16, root=draw(st.integers(-1, ranks - 1)), async_op=draw(st.booleans()), cell=draw(st.integers(1, 2)), site=site,
                state=state, issued_s=float(index), tag=draw(st.integers(0, 1)),
            )
        )  # fmt: skip
    return tuple(line)


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    """Ranks in any state."""
    ranks = draw(st.integers(1, 9))
    views = tuple(
        RankView(
            rank, 10 + rank, draw(st.sampled_from(["running", "running", "stopped", "dead"])), generation=1,
            cell=draw(st.integers(1, 2)), activity=draw(st.sampled_from(["idle", "cell", "call"])), calls=draw(calls(ranks)),
        )
        for rank in range(ranks)
    )  # fmt: skip
    return Evidence(ranks, cell=2, targets=tuple(range(ranks)), taken_s=60.0, ranks=views)


def holds(grid: CallGrid, culprits: tuple[int, ...]) -> None:
    """What is true of every picture."""
    for track in grid.tracks:
        ranks = [rank for row in track.rows for rank in row.ranks]
        assert sorted(ranks) == list(range(grid.world_size)), "each rank is in one row"
        for row in track.rows:
            assert len(row.places) == (len(track.columns) if row.member else 0)
            seqs = [place.call.seq for place in row.places if place.call is not None]
            assert seqs == sorted(seqs), "calls stay in their order"
            assert not row.odd or set(row.ranks) <= set(culprits)
            assert row.odd or not any(place.loud or place.hole for place in row.places)
        assert sum(1 + column.left_out for column in track.columns) <= track.num_columns
    assert max(map(len, to_text(grid).splitlines())) <= 80
    assert to_html(grid).count("<svg") == to_html(grid).count("</svg>")
    assert compose(grid).width > 0
    assert loads(dumps(grid)) == grid


@given(evidence())
def test_anything_is_drawn(seen: Evidence) -> None:
    verdicts = judge(seen)
    holds(call_grid(seen), verdicts[0].culprits if verdicts else ())


@given(slips(), st.integers(1, 1000))
def test_a_slip_is_drawn_with_every_call_in_it(slip: tuple[World, int, str], seed: int) -> None:
    seen, _, _ = slip
    found = seen.run(None, seed).evidence()
    grid = call_grid(found)
    holds(grid, judge(found)[0].culprits)
    (track,) = grid.tracks
    if track.num_columns <= ROOM:
        drawn = {row.ranks[0]: [place.call for place in row.places if place.call is not None] for row in track.rows}
        assert drawn == {view.rank: list(view.calls) for view in found.ranks}
    assert any(place.hole or place.loud for row in track.rows for place in row.places), "one glance says who"
