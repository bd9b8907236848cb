"""How a cell's result ends for the caller: which error it is, whom it is blamed on, and when a fault has declared it."""

from __future__ import annotations

import pytest

from labkit.endings import declared, interrupted
from labkit.errors import DeadlineExceeded, RankDead, RankRaised
from labkit.views import error_for
from labkit.wire import CallSite, CellResult, CodeError, Diagnosis, Evidence, Injection, Outcome, Verdict

VERDICT = Verdict(
    "LK003", "skipped", "A call is missing", "rank 2 never called all_reduce #1.", next_step="call it on rank 2", ending="hang"
)
ZERO = CodeError("ZeroDivisionError", "division by zero", CallSite("cell 3", 2))


def ended(*statuses: str, verdict: Verdict | None = None, error: CodeError | None = None) -> CellResult:
    outcomes = tuple(Outcome(r, status=status, error=error if status == "error" else None) for r, status in enumerate(statuses))
    return CellResult(3, outcomes, Diagnosis((verdict,), Evidence(len(statuses))) if verdict else None)


@pytest.mark.parametrize(
    ("result", "kind", "text"),
    [
        (ended("ok", "ok"), None, ""),
        (ended("ok", "ok", verdict=VERDICT), None, ""),
        (
            ended("error", "error", error=ZERO),
            RankRaised,
            "ZeroDivisionError on all 2 ranks (cell 3, line 2): division by zero; fix",
        ),
        (
            ended("late", "ok"),
            DeadlineExceeded,
            "no answer by the deadline from rank 0; world.diagnose() says what they wait for",
        ),
        (ended("dead", "error", error=ZERO), RankDead, "the process of rank 0 has exited; world.recover() starts a new one"),
        (ended("error", "interrupted", error=ZERO), RankRaised, "ZeroDivisionError on rank 0"),
        (
            ended("error", "ok", error=CodeError("ContractError", "differs; mend it")),
            RankRaised,
            "ContractError on rank 0: differs; mend it",
        ),
    ],
)
def test_the_error_of_a_result(result: CellResult, kind: type | None, text: str) -> None:
    error = error_for(result)
    assert type(error) is (kind or type(None))
    assert str(error or "").startswith(text)
    assert "\n" not in str(error)


def test_an_interrupt_is_not_blamed_for_an_exception() -> None:
    assert interrupted(ended("interrupted", "ok"))
    assert not interrupted(ended("interrupted", "error", error=ZERO))


def test_a_typing_mistake_under_an_armed_fault_is_still_an_error() -> None:
    typo = ended("error", "error", error=ZERO)
    assert not declared(typo, [Injection("skip", 0, "t", ending="hang")])
    assert declared(typo, [Injection("raise", 0, "t", ending="error")])
    assert declared(ended("error", "late", verdict=VERDICT), [Injection("x", 0, "t", ending="slow", expected=("LK003",))])
    assert not declared(typo, [])
