"""What breaks the process groups: only what happened to calls and processes, never what a learner's own text says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.endings import groups_broken, guilty_error, worst
from labkit.testing import Script, call, raises
from labkit.wire import Call, CellResult, CodeError, Diagnosis, Evidence, Outcome, RankView, RecoveryReport, Verdict

CLOSED = CodeError("RuntimeError", "Connection closed by peer")


def seen(*calls: Call, activity: str = "idle") -> Evidence:
    return Evidence(2, ranks=(RankView(0, calls=calls, activity=activity, generation=1), RankView(1, generation=1)))


FAILED, SENT = Call(1, 1, "all_reduce", state="failed"), Call(1, 0, "send", state="failed")


@pytest.mark.parametrize(
    ("outcome", "evidence", "broken"),
    [
        (Outcome(0, "error", error=CodeError("ValueError", "NCCL: Connection closed, Broken pipe")), seen(), False),
        (Outcome(0, "error", error=CLOSED), seen(FAILED), True),
        (Outcome(0), seen(FAILED), True),  # the learner's code has caught the error
        (Outcome(0, "error", error=CodeError("ValueError", "no")), seen(SENT), False),
        (Outcome(0, "error", error=CLOSED), seen(SENT), True),
        (Outcome(0, "dead"), seen(), True),
        (Outcome(0, "late"), seen(), False),  # in Python, in no call
        (Outcome(0, "late"), seen(Call(1, 1, "all_reduce", state="issued"), activity="call"), True),
        (Outcome(0, "late"), None, True),
        (Outcome(0), None, False),
    ],
)
def test_what_breaks_the_groups(outcome: Outcome, evidence: Evidence | None, broken: bool) -> None:
    assert groups_broken([outcome], evidence) is broken


def test_a_learners_own_error_text_breaks_nothing() -> None:
    script = Script(2)
    script.on("cell", raises("ValueError: NCCL: Connection reset", calls=(call("all_reduce"),)))
    with script.world() as world:
        world.run_cell("dist.all_reduce(x); raise ValueError('NCCL: Connection reset')")
        assert world.broken == ""


def test_the_worst_ending_counts() -> None:
    assert worst([Outcome(0), Outcome(1)]) == ("", ())
    assert worst([Outcome(0, "error"), Outcome(1, "stuck"), Outcome(2, "late")]) == ("stuck", (1,))


def test_who_is_to_blame_for_an_end_is_told_from_who_suffers() -> None:
    refused = CodeError("ContractError", "the ranks do not agree")
    outcomes = (Outcome(0, "error", error=CodeError("KeyError", "'y'")), Outcome(1, "error", error=refused), Outcome(2))
    result = CellResult(3, outcomes)
    assert [guilty_error(result, rank) is not None for rank in range(4)] == [True, False, False, False]
    verdict = Verdict("LK004", "order-mismatch", "", "", culprits=(1,))
    judged = replace(result, diagnosis=Diagnosis((verdict,), Evidence(3)))
    assert guilty_error(judged, 1) is refused
    assert guilty_error(replace(judged, recovery=RecoveryReport("soft", 2)), 0) is None
    assert guilty_error(None, 0) is None
