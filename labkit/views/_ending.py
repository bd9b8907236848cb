"""The one line that a cell's bad ending amounts to, as an error to raise."""

from __future__ import annotations

from ..endings import worst
from ..errors import DeadlineExceeded, RankBusy, RankDead, RankError, RankRaised, RankStuck
from ..wire import CellResult
from ._output import error_groups
from ._text import label, one_line
from .cell_result import MORE_TIME, everyone

_LINE = 400
_OURS = ("ContractError",)  # errors of labkit's own, whose message ends with the next step already
_BY_STATUS: dict[str, tuple[type[RankError], str, str]] = {
    "late": (DeadlineExceeded, "no answer by the deadline from {}", "world.diagnose() says what they wait for"),
    "stuck": (RankStuck, "{} cannot complete this call", "world.diagnose() says what they wait for"),
    "dead": (RankDead, "the process of {} has exited", "world.recover() starts a new one"),
    "busy": (RankBusy, "an earlier cell still runs on {}", "wait for it, or call world.recover()"),
}


def error_for(result: CellResult) -> RankError | None:
    """The error to raise for a result, None if all ranks ended well. Its text is one line.

    The verdict's sentence comes first where there is one: it names the cause, and the exceptions
    may be no more than its consequences.
    """
    status, ranks = worst(result.outcomes)
    if not status:
        return None
    verdict = result.diagnosis.verdict if result.diagnosis is not None else None
    kind = _BY_STATUS[status][0] if status in _BY_STATUS else RankRaised
    if verdict is not None:
        step = _plain(verdict.next_step)
        # It goes on after a semicolon; a name such as DDP keeps its capitals.
        steps = [step[0].lower() + step[1:] if step[1:2].islower() else step] if step else []
        if status in ("stuck", "late", "dead") and result.recovery is None and "recover" not in verdict.next_step:
            steps.append("world.recover() gives you working ranks again")
        return kind(_plain(verdict.sentence), hint="; ".join(steps), ranks=ranks, code=verdict.code)
    raised = error_groups(result.outcomes)
    if status == "error" and raised:
        return _raised(result)
    _, what, hint = _BY_STATUS.get(status, (RankRaised, "the code raised on {}", "see the output above"))
    hint = MORE_TIME if result.standing else hint
    return kind(what.format(label(ranks, everyone(result))), hint=hint, ranks=ranks)


def _raised(result: CellResult) -> RankRaised:
    (ranks, error), *others = error_groups(result.outcomes)
    where = f"{label(ranks, everyone(result))}" + (f" ({error.site})" if error.site is not None else "")
    message = one_line(error.message)
    what = f"{error.type} on {where}" + (f": {message}" if message else "")
    if others:
        what += " (and " + ", ".join(f"{other.type} on {label(those, everyone(result))}" for those, other in others) + ")"
    hint = "" if error.type in _OURS else "fix the line and run the cell again"
    return RankRaised(what, hint=hint, ranks=ranks, type=error.type)


def _plain(text: str) -> str:
    """One line without a full stop, to be followed by "; what to do next"."""
    return one_line(" ".join(text.split()), _LINE).rstrip(".")
