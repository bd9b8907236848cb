"""An exception that one rank alone has caught is told beside a verdict; what all ranks catch, or a dead rank has, is not."""

from __future__ import annotations

from labkit.diagnosis import judge
from labkit.wire import CallSite, CodeError

from .build import world

ERROR = CodeError("RuntimeError", "shapes cannot be multiplied", CallSite("cell 7", 1))
FALLBACK = CodeError("ImportError", "no apex", CallSite("cell 7", 2))
TOLD = "Before that, rank 1 caught RuntimeError: shapes cannot be multiplied (cell 7, line 1)."


def test_the_rank_that_caught_and_went_on_is_told_with_the_line() -> None:
    (verdict,) = judge(world("ar1 ar1 bc3", {1: "ar1 bc3"}, 3).run().but(1, caught=(FALLBACK, ERROR)).evidence())
    assert verdict.sentence.endswith(TOLD)
    assert [side.ranks for side in verdict.sides if side.did.startswith("caught RuntimeError")] == [(1,)]
    assert verdict.next_step.startswith("If it went on")


def test_of_a_rank_that_left_early_too() -> None:
    (verdict,) = judge(world("ar1 ar1", {1: "ar1"}, 3).run().but(1, caught=(ERROR,)).evidence())
    assert (verdict.code, verdict.sentence.endswith(TOLD)) == ("LK007", True)


def test_what_every_rank_catches_is_not_told() -> None:
    there = world("ar1 ar1 bc3", {1: "ar1 bc3"}, 3).run()
    for rank in range(3):
        there.but(rank, caught=(FALLBACK,))
    assert "caught" not in judge(there.evidence())[0].sentence


def test_a_healthy_world_stays_healthy() -> None:
    assert judge(world("ar1 ar1", None, 3).run().but(1, caught=(ERROR,)).evidence()) == ()


def test_a_verdict_that_knows_its_exception_is_left_alone() -> None:
    (verdict,) = judge(world("ar1", {1: "raise1"}, 3).run().but(1, caught=(ERROR,)).evidence())
    assert (verdict.code, "caught" in verdict.sentence) == ("LK003", False)
