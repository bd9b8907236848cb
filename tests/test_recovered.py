"""What a recovery left, in words: what was restored as of when, what is lost and why, for each rank."""

from __future__ import annotations

from labkit.plain import dumps, loads
from labkit.recovered import RecoveryReport, Restored, in_a_sentence, rows
from labkit.views import to_html, to_text


def report(*restored: Restored, lost: dict[str, tuple[str, ...]] | None = None) -> RecoveryReport:
    return RecoveryReport(
        "ranks", 2, replaced=tuple(each.rank for each in restored), kept={"0": ("x",)}, lost=lost or {}, restored=restored
    )


def test_what_was_restored_and_what_is_lost() -> None:
    given = Restored(2, 6, tuple("abcd"), ("nn",), {"f": "an open file"}, {"b": "only its values"})
    found = report(given, lost={"2": ("f",)})
    assert in_a_sentence(found) == (
        "Recovered in under a second: replaced rank 2 with a new process. "
        "Rank 2: 4 variables, restored as they were after cell 6. Lost on rank 2: f (an open file)."
    )
    assert rows(found)[:3] == [
        ("kept", "x (rank 0)"), ("restored", "a, b (only its values), c, d, nn (rank 2)"), ("lost", "f (an open file) (rank 2)"),
    ]  # fmt: skip
    assert "f (an open file)" in to_text(found)
    assert "f (an open file)" in to_html(found)
    assert loads(dumps(found)) == found


def test_ranks_that_were_given_the_same_are_told_together() -> None:
    text = in_a_sentence(report(Restored(1, 6, ("a", "b")), Restored(2, 6, ("a", "c")), Restored(3, 5, ("a",))))
    assert "Ranks 1 and 2: 2 variables each, restored as they were after cell 6." in text
    assert "The one variable of rank 3 was restored as it was after cell 5." in text
    assert "Lost" not in text


def test_a_twin_that_is_older_says_what_came_after_it() -> None:
    assert "Lost on rank 1: y (made after cell 5)." in in_a_sentence(report(Restored(1, 5, ("x",)), lost={"1": ("y",)}))


def test_why_there_was_no_twin() -> None:
    text = in_a_sentence(report(Restored(1, made=("nn", "f"), why="CUDA is in use on it"), lost={"1": ("x", "y")}))
    assert text.endswith(
        "Rank 1 made again, from the source of the cells: nn, f. Lost on rank 1: x, y. "
        "Rank 1: no variable was kept, since CUDA is in use on it."
    )


def test_nothing_was_there_to_lose() -> None:
    text = in_a_sentence(report(Restored(1, why="it had no twin yet"), lost={"1": ()}))
    assert text == "Recovered in under a second: replaced rank 1 with a new process."
