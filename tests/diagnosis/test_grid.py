"""The picture's record: its frame and its odd ranks are the verdict's, and every hole is a call that is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labkit.callgrid import CallGrid, CallTrack
from labkit.calls import site_key
from labkit.diagnosis import align, judge
from labkit.diagnosis.grid import MOST_MESSAGES, call_grid
from labkit.plain import dumps, loads
from labkit.testing import replay
from labkit.wire import Call, Evidence, RankView

from .build import world
from .corpus import Case, cases
from .pictured import left, skipped, swapped, unreceived

DATA = Path(__file__).resolve().parents[1] / "data"


def marked(track: CallTrack, mark: str) -> set[tuple[int, int]]:
    """(rank, column) of each place with a mark."""
    return {(rank, at) for row in track.rows for at, place in enumerate(row.places) if getattr(place, mark) for rank in row.ranks}


def seen(grid: CallGrid) -> list[str]:
    """A row as letters: the first of each op, a hole as "-"."""
    return ["".join(p.call.op[0] if p.call else "-" if p.hole else " " for p in row.places) for row in grid.tracks[0].rows]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_picture_and_the_verdict_are_one_truth(case: Case) -> None:
    verdict, world_ = judge(case.evidence)[0], align(case.evidence)
    grid = call_grid(case.evidence)
    assert (grid.sentence, grid.code, grid.culprits) == (verdict.sentence, verdict.code, verdict.culprits)
    for track in grid.tracks:
        assert {rank for row in track.rows if row.odd for rank in row.ranks} <= set(verdict.culprits)
        assert {rank for rank, _ in marked(track, "hole") | marked(track, "loud")} <= set(verdict.culprits)
        found = world_.disagreement
        if found is not None and world_.sequence_error is None and found.track.group == track.group:
            assert track.columns[track.frame].seq == found.seq


def test_swapped_calls_share_the_framed_column() -> None:
    grid = call_grid(swapped())
    assert seen(grid) == ["baabaa"] * 3 + ["baabab"]
    (track,) = grid.tracks
    assert (track.frame, track.num_agree, track.num_columns) == (5, 5, 6)
    assert marked(track, "loud") == {(3, 5)}
    assert marked(track, "hole") == set()
    assert [row.waited_s for row in track.rows] == pytest.approx([30.0] * 4, abs=0.1)


def test_a_rank_that_left_has_a_hole_where_the_others_wait() -> None:
    (track,) = call_grid(left()).tracks
    assert marked(track, "hole") == {(2, 4)}
    assert [row.end for row in track.rows] == ["", "", "left", ""]


def test_a_skip_among_equal_calls_is_a_hole_at_its_line_and_the_wrong_sums_are_counted() -> None:
    grid = call_grid(skipped(calls=400, at=358))
    (track,) = grid.tracks
    most, odd = track.rows
    assert (len(most.ranks), odd.ranks, odd.shift, odd.end) == (63, (37,), -1, "left")
    assert track.by_site
    assert track.columns[track.frame].seq == 359
    assert marked(track, "hole") == {(37, track.frame)}
    assert track.num_wrong == 400 - 359 - 0
    assert sum(1 + column.left_out for column in track.columns) == track.num_columns == 400
    both = [(a.call, b.call) for a, b in zip(most.places, odd.places, strict=True) if a.call and b.call]
    assert all(site_key(a) == site_key(b) for a, b in both), "columns are aligned by the line that a call comes from"


def test_the_hole_is_where_the_verdict_has_it_also_where_other_calls_could_stand_there() -> None:
    program = "ar1 ar2 ar9 ar9 ar2 ar9 ar9 ar2 ar9 ar9 bar7"
    evidence = world(program, {1: "ar1 ar9 ar2 ar9 ar9 ar2 ar9 ar9 bar7"}, 3).run().evidence()
    error = align(evidence).sequence_error
    assert error is not None
    assert (error.slip.kind, error.slip.count, error.seq, error.ranks) == ("skip", 2, 2, (1,))
    (track,) = call_grid(evidence).tracks
    assert marked(track, "hole") == {(1, 1), (1, 2)}
    assert track.rows[1].shift == -2
    assert marked(track, "loud") == set()


def test_an_extra_call_is_the_odd_one_and_nobody_has_a_hole() -> None:
    (track,) = call_grid(world("ar1 ar2 ar3", {2: "ar1 ar1 ar2 ar3"}).run().evidence()).tracks
    assert marked(track, "loud") == {(2, 1)}
    assert marked(track, "hole") == set()
    assert track.rows[2].shift == 1


def test_groups_are_tracks_and_a_send_without_a_recv_is_trouble() -> None:
    grid = call_grid(unreceived())
    assert [track.group for track in grid.tracks] == ["world", "pair"]
    assert [row.member for row in grid.tracks[1].rows] == [False, False, True, True]
    assert marked(grid.tracks[0], "hole") == {(2, 3)}
    assert grid.tracks[0].rows[2].end == "in send"
    assert grid.messages is not None
    assert [(each.src, each.dst) for each in grid.messages.messages if each.trouble] == [(2, 3)]
    assert sum(bool(each.send and each.recv) for each in grid.messages.messages) == 4


def test_of_many_messages_the_trouble_and_the_newest_are_kept() -> None:
    sends = " ".join(["send1^1"] * 40)
    evidence = world("", {0: f"{sends} send2^1", 1: " ".join(["recv1^0"] * 40)}, 2).run().evidence()
    messages = call_grid(evidence).messages
    assert messages is not None
    assert (len(messages.messages), messages.left_out) == (MOST_MESSAGES, 41 - MOST_MESSAGES)
    assert messages.messages[-1].trouble


def test_rows_fold_from_eight_ranks_on_and_never_move() -> None:
    small = call_grid(world("ar1 ar2", {5: "ar1"}, 7).run().evidence())
    assert [row.ranks for row in small.tracks[0].rows] == [(rank,) for rank in range(7)]
    large = call_grid(world("ar1 ar2", {5: "ar1"}, 8).run().evidence())
    assert [row.ranks for row in large.tracks[0].rows] == [(0, 1, 2, 3, 4, 6, 7), (5,)]


def test_a_healthy_world_has_no_frame_no_hole_and_nobody_is_odd() -> None:
    evidence = world("ar1 bc2", {1: "ar1 bc3"}).run().evidence()
    grid = call_grid(evidence)
    assert (grid.accent, grid.sentence) == ("good", "2 calls, the same on all 4 ranks")
    assert grid.tracks[0].frame == -1
    assert not any(row.odd for row in grid.tracks[0].rows)


def test_ranks_on_their_way_have_no_hole() -> None:
    evidence = world("ar1 ar2", {1: "ar1 busy2"}).run().evidence(0.0)
    grid = call_grid(evidence)
    assert (grid.code, grid.accent) == ("", "wait")
    assert marked(grid.tracks[0], "hole") == set()


def test_without_sites_only_numbers_are_compared_and_there_is_no_gap_inside() -> None:
    evidence = skipped(8, 30, 3, 20)
    ranks = tuple(replace(view, calls=tuple(replace(call, site=None) for call in view.calls)) for view in evidence.ranks)
    (track,) = call_grid(replace(evidence, ranks=ranks)).tracks
    assert not track.by_site
    assert {at for _, at in marked(track, "hole")} <= {len(track.columns) - 1}


def test_the_newest_cell_is_drawn_or_as_many_as_are_asked_for() -> None:
    calls = tuple(Call(n, n, "all_reduce", cell=n, state="done") for n in (1, 2, 3))
    evidence = Evidence(2, cell=3, ranks=tuple(RankView(rank, cell=3, calls=calls) for rank in range(2)))
    assert call_grid(evidence).cells == (3,)
    assert call_grid(evidence, cells=2).cells == (2, 3)
    idle = replace(evidence, cell=4)
    assert call_grid(idle).cells == (3,), "a cell without calls leaves those of the last one that made some"


def test_no_call_and_no_rank_make_an_empty_picture() -> None:
    assert call_grid(Evidence(4)).tracks == ()
    assert call_grid(Evidence(2, ranks=(RankView(0), RankView(1)))).sentence == "no call of a group yet"


def test_the_record_is_plain() -> None:
    for evidence in (swapped(), left(), unreceived(), skipped(9, 50, 3, 20)):
        grid = call_grid(evidence)
        assert loads(dumps(grid)) == grid


def parallel(rank: int, *, skips: bool = False) -> str:
    """Tensor-parallel groups of four neighbours, data-parallel groups across them."""
    inner, outer = f"%tp{rank // 4}", f"%dp{rank % 4}"
    return f"bc1 ar2{inner} ag3{inner} ar4{outer} ar2{inner} {'' if skips else f'ag3{inner} '}ar4{outer} ar2{inner} bar5"


def test_of_many_groups_the_one_with_the_trouble_comes_first_and_the_others_are_counted() -> None:
    groups = {f"tp{i}": tuple(range(4 * i, 4 * i + 4)) for i in range(4)} | {f"dp{i}": tuple(range(i, 16, 4)) for i in range(4)}
    programs = {rank: parallel(rank, skips=rank == 6) for rank in range(16)}
    grid = call_grid(world("", programs, 16, groups=groups).run().evidence(7))
    assert [track.group for track in grid.tracks] == ["tp1", "world"]
    assert grid.groups_left_out == 7
    others, mates, odd = grid.tracks[0].rows
    assert (others.member, mates.ranks, odd.ranks) == (False, (4, 5, 7), (6,))
    assert {rank for rank, _ in marked(grid.tracks[0], "hole")} == {6}


RECORDINGS = sorted(path for folder in ("evidence", "safe") for path in (DATA / folder).glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_real_ranks_did_is_drawn_as_it_was_judged(path: Path) -> None:
    for _, _, diagnosis in replay(path).diagnoses():
        grid = call_grid(diagnosis.evidence)
        verdicts = judge(diagnosis.evidence)
        assert grid.sentence == verdicts[0].sentence if verdicts else grid.accent in ("good", "wait")
        odd = {rank for track in grid.tracks for row in track.rows if row.odd for rank in row.ranks}
        assert odd <= set(verdicts[0].culprits if verdicts else ())
        assert max(map(len, str(grid).splitlines())) <= 80
        assert loads(dumps(grid)) == grid
