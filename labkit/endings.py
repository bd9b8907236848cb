"""How a request ended, decided in one place: for the world, for the error that is raised, and for armed faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .diagnosis import align, groups_unusable
from .diagnosis.standing import is_echo
from .makings import is_about_groups
from .vocabulary import CallState, Ending, Status, breaks_groups
from .wire import CellResult, CodeError, Evidence, Injection, Outcome

WORST_FIRST = (Status.STUCK, Status.LATE, Status.DEAD, Status.ERROR)
_ENDINGS: dict[str, str] = {
    Status.LATE: Ending.HANG,
    Status.STUCK: Ending.HANG,
    Status.DEAD: Ending.ABORT,
    Status.ERROR: Ending.ERROR,
}


def worst(outcomes: Iterable[Outcome]) -> tuple[str, tuple[int, ...]]:
    """The status that counts, and the ranks that have it; ("", ()) if nothing is wrong.

    >>> status, ranks = worst([Outcome(0), Outcome(1, "error"), Outcome(2, "late"), Outcome(3, "late")])
    >>> print(status, ranks)
    late (2, 3)
    """
    by_status: dict[str, tuple[int, ...]] = {}
    for outcome in outcomes:
        by_status[outcome.status] = (*by_status.get(outcome.status, ()), outcome.rank)
    return next(((status, by_status[status]) for status in WORST_FIRST if status in by_status), ("", ()))


def guilty_error(result: CellResult | None, rank: int) -> CodeError | None:
    """What ended a cell on a rank that is to blame for its end: an error of its own, or one of a verdict's culprits.

    An error that another rank has caused is none; nor is one after which the ranks were recovered.

    >>> mine = CellResult(1, (Outcome(0, "error", error=CodeError("KeyError", "'y'")), Outcome(1)))
    >>> str(guilty_error(mine, 0)), guilty_error(mine, 1)
    ("KeyError: 'y'", None)
    """
    if result is None or result.recovery is not None:
        return None
    error = next((outcome.error for outcome in result.outcomes if outcome.rank == rank), None)
    verdict = result.diagnosis.verdict if result.diagnosis is not None else None
    culprit = verdict is not None and rank in verdict.culprits
    return error if error is not None and (culprit or not is_echo(error)) else None


def interrupted(result: CellResult) -> bool:
    """The learner stopped the cell: nothing else was wrong with it."""
    statuses = {outcome.status for outcome in result.outcomes}
    return "interrupted" in statuses and statuses <= {"ok", "interrupted"}


def declared(result: CellResult, injections: Iterable[Injection]) -> bool:
    """An armed fault declares just this ending, so it is a success and no error.

    The ending is compared as well: with a fault armed, a learner's own typing mistake is still an error.
    """
    verdicts = result.diagnosis.verdicts if result.diagnosis is not None else ()
    seen = {_ENDINGS.get(outcome.status, "") for outcome in result.outcomes} | {verdict.ending for verdict in verdicts}
    codes = {verdict.code for verdict in verdicts}
    return any(not fault.ending or fault.ending in seen or codes & set(fault.expected) for fault in injections)


def _connection_broke(outcome: Outcome) -> bool:
    """Torch raised an error of a broken connection; the same words in the learner's own `raise` say nothing."""
    error = outcome.error
    return error is not None and not error.own and breaks_groups(str(error))


def groups_broken(outcomes: Sequence[Outcome], evidence: Evidence | None) -> bool:
    """Whether the process groups no longer work after a request that ended so; `evidence` is a look at its end.

    They do not if a rank died, if a rank was given up inside a call, if a call failed after it was issued (also where
    the learner's code caught the error), if torch raised an error of a broken connection, or if the ranks have ended their
    groups or made different ones.

    >>> from labkit.wire import CodeError
    >>> groups_broken([Outcome(0, "error", error=CodeError("ValueError", "NCCL has no such option"))], Evidence(1))
    False
    """
    statuses = {outcome.status for outcome in outcomes}
    if Status.DEAD in statuses or any(_connection_broke(outcome) for outcome in outcomes):
        return True
    given_up = bool(statuses & {Status.LATE, Status.STUCK})
    if evidence is None:  # no rank has made a call
        return given_up
    about_groups = any(is_about_groups(call) for view in evidence.ranks for call in view.calls)
    if about_groups and groups_unusable(align(evidence)):
        return True
    if given_up and any(view.waiting_in is not None for view in evidence.ranks):
        return True
    return any(
        call.state == CallState.FAILED and not call.p2p  # an isend of a cell that raised is "failed" as well
        for view in evidence.ranks
        if view.generation == evidence.generation
        for call in view.calls
    )
