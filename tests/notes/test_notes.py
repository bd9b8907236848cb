"""What is said of what ranks have found: once for each place, with the line in the first line of text, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.notes import NOTES, Finding, Note, gather
from labkit.testing import Script, ok
from labkit.views import to_html
from labkit.wire import dumps, loads

EVERYONE = range(3)
GAPS = {"shape": [4], "stride": [3], "name": "column"}
FACTS: dict[str, dict[str, Any]] = {
    "not-contiguous": GAPS,
    "not-waited": {"how": "lost", "changed": True},
    "not-synced": {"model": "Net", "checksum": "aa"},
    "other-lines": {"kind": "skip", "seq": 4, "mine": "cell 7, line 3", "theirs": "cell 7, line 5", "others": [0, 2]},
    "one-memory": {"name": "parts", "count": 3, "places": 1},
    "thrown-away": {"given": "x.contiguous()", "origin": "x"},
}


def finding(kind: str, op: str = "all_reduce", line: int = 3, **facts: Any) -> Finding:
    return Finding(kind, op, f"cell 7, line {line}", "dist.all_reduce(...)", 1, {**FACTS[kind], **facts})


def note(kind: str, *ranks: int, op: str = "all_reduce", **facts: Any) -> Note:
    own = {"checksum": str} if kind == "not-synced" else {}
    of = {rank: facts | {name: make(rank) for name, make in own.items()} for rank in ranks or EVERYONE}
    (made,) = gather({rank: [finding(kind, op, **facts)] for rank, facts in of.items()}, EVERYONE)
    return made


@pytest.mark.parametrize("kind", sorted(FACTS))
def test_every_kind_says_place_operation_and_next_step(kind: str) -> None:
    said = note(kind)
    first, *others = str(said).splitlines()
    assert first.startswith("Note, cell 7, line 3: ")
    assert "all_reduce" in first or kind == "not-synced"
    assert any("Next:" in line for line in others)
    assert "all ranks" in str(said) or kind == "other-lines"
    assert "cell 7, line 3" in to_html(said)
    assert loads(dumps(said)) == said


def test_there_are_words_and_a_check_for_every_kind() -> None:
    from labkit.rank.notes import CHECKS

    assert set(NOTES) - {"other-lines"} == set(CHECKS), "one rank alone can't see that one"
    assert set(NOTES) == set(FACTS)


def test_one_place_is_told_once_and_two_places_twice() -> None:
    both = [finding("thrown-away"), finding("thrown-away", line=9)]
    notes = gather({0: both, 1: both[:1]}, EVERYONE)
    assert [(each.place, each.ranks) for each in notes] == [("cell 7, line 3", (0, 1)), ("cell 7, line 9", (0,))]
    assert "on ranks 0 and 1" in str(notes[0])


def test_a_tensor_with_gaps_is_told_with_its_layout_and_its_name() -> None:
    said = note("not-contiguous", op="broadcast")
    assert "shape is [4] and its stride [3]" in said.sentence
    assert "column.contiguous()" in said.next_step
    assert "column.copy_(c)" in said.next_step


@pytest.mark.parametrize(
    ("op", "facts", "title", "step"),
    [
        ("all_reduce", {}, "never waited for", "work = dist.all_reduce(..., async_op=True)"),
        ("isend", {}, "never waited for", "work = dist.isend(...)"),
        ("batch_isend_irecv", {}, "never waited for", "for work in dist.batch_isend_irecv(ops): work.wait()"),
        ("all_reduce", {"how": "changed"}, "changed before the wait", "Call wait()"),
        ("all_reduce", {"how": "used", "changed": False}, "used before anybody waited", "Call wait()"),
    ],
)
def test_each_way_not_to_wait_has_its_own_remedy(op: str, facts: dict[str, Any], title: str, step: str) -> None:
    said = note("not-waited", op=op, **facts)
    assert title in said.title
    assert step in said.next_step
    assert ("was changed while" in said.sentence) == facts.get("changed", True)


def test_a_named_copy_is_told_by_its_name() -> None:
    said = note("thrown-away", given="p.grad.float()", origin="p.grad", name="g")
    assert "g is a new tensor, made by p.grad.float()" in said.sentence
    assert "Go on with g" in said.next_step


def test_a_local_step_is_no_slip_where_the_ranks_are_alike() -> None:
    same = {rank: [finding("not-synced", "step")] for rank in EVERYONE}
    assert gather(same, EVERYONE) == ()
    same[2] = [finding("not-synced", "step", checksum="bb")]
    (told,) = gather(same, EVERYONE)
    assert "not averaged" in told.title
    assert "no_sync()" in told.next_step


def test_a_finding_of_a_kind_that_this_version_does_not_know_is_left_out() -> None:
    assert gather({0: [Finding("of-tomorrow", "all_reduce", "cell 7, line 3")]}, EVERYONE) == ()


def test_a_cells_result_and_the_diagnosis_after_it_carry_the_notes() -> None:
    script = Script(ranks=2)
    with script.world() as world:
        script.on("cell", ok(findings=(finding("thrown-away"),)))
        result = world.run_cell("...")
        assert [each.kind for each in result.notes] == ["thrown-away"]
        assert result.ok
        assert result.diagnosis is None
        assert "Note, cell 7, line 3: the result of all_reduce is thrown away" in str(result)
        assert "Note, cell 7, line 3" in str(world.diagnose())
        assert "no fault found" not in str(world.diagnose())
        assert world.run_cell("...").notes == ()
        assert "no fault found" in str(world.diagnose())
