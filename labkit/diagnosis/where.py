"""Where a rank is, in words: the learner's function and line, and what it is in if a library was called there."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import join_ranks
from ..frames import package_of
from ..phrases import fold
from ..timings import MOVED_S
from ..units import format_seconds
from ..vocabulary import Activity, ProcessState
from ..wire import CallSite, CodeError, Evidence, Frame, RankView

_MOST_LINES = 4


def place(view: RankView) -> str:
    """Where the main thread is, with its preposition; "" if its line is not known.

    >>> place(RankView(0, stack=(Frame("cell 1", 8, "<module>"), Frame("cell 1", 4, "tokenize"))))
    'in tokenize (cell 1, line 4), reached through line 8'
    >>> linear = Frame("/lib/python3/site-packages/torch/nn/modules/linear.py", 125, "Linear.forward")
    >>> place(RankView(0, stack=(Frame("cell 1", 8, "<module>"), linear)))
    'in forward of Linear, called at cell 1, line 8'
    """
    if not view.path:
        return ""
    site = view.path[-1]
    inside = _library_function(view.library)
    if inside:
        return f"in {inside}, called {_at(site)}{through(view.path)}"
    return _at(site) + through(view.path)


def _at(site: CallSite) -> str:
    return f"in {site.function} ({site})" if site.function and not site.function.startswith("<") else f"at {site}"


def through(path: tuple[CallSite, ...]) -> str:
    """The lines that lead to the last of these places: ", reached through lines 10 and 8"; "" if it is the only one."""
    said: list[str] = []
    for one in path[:-1]:
        text = str(one.line) if one.file == path[-1].file else f"{one.line} of {str(one).rpartition(', ')[0]}"
        if not said or said[-1] != text:
            said.append(text)
    if not said:
        return ""
    if len(said) > _MOST_LINES:
        said = [*said[:2], "...", *said[-1:]]
        return f", reached through lines {', '.join(said)}"
    lines = f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]
    return f", reached through {'lines' if len(said) > 1 else 'line'} {lines}"


def _library_function(frames: tuple[Frame, ...]) -> str:
    """The function that says most: the innermost one with a public name in the package that was called; "forward of Linear"."""
    if not frames:
        return ""
    called = package_of(frames[0].file)
    public = [frame for frame in frames if package_of(frame.file) == called and not frame.name.startswith(("_", "<"))]
    frame = public[-1] if public else frames[0]
    owner, _, name = frame.function.rpartition(".")
    return f"{name} of {owner}" if owner else name


def of_a_thread(view: RankView) -> str:
    """A clause on what ended another thread of the rank, with a space before it; "" if nothing did."""
    error = view.thread_error
    if error is None:
        return ""
    return f" (one of its threads raised {error.said()}" + (f" at {error.site})" if error.site is not None else ")")


def doing(view: RankView) -> str:
    """What a rank is in, a call without its number: ranks that still make calls are rarely at the same number."""
    if view.process in (ProcessState.DEAD, ProcessState.STOPPED):
        return str(view.process)
    call = view.waiting_in
    if call is not None:
        return f"in {call.name} ({call.site})" if call.site is not None else f"in {call.name}"
    where = place(view)
    return where.replace("at ", "in Python at ", 1) if where.startswith("at ") else where or "in Python"


def _text_of(evidence: Evidence, view: RankView) -> str:
    """The line itself in backquotes, where a rank is in no call and in no function that has a name."""
    line = evidence.source_line(view.line) if doing(view).startswith("in Python at ") else ""
    return f": `{line}`" if line else ""


def whereabouts(evidence: Evidence, ranks: Iterable[int]) -> str:
    """Where ranks are that have not answered though no rule says why, and since when no rank has moved; "" if none is known.

    >>> whereabouts(Evidence(2, ranks=(RankView(0), RankView(1))), (0, 1))
    'ranks 0 and 1 were in Python'
    """
    places: dict[str, list[int]] = {}
    asked = set(ranks)
    for view in evidence.ranks:
        if view.rank in asked:
            places.setdefault(doing(view) + _text_of(evidence, view), []).append(view.rank)
    told = "; ".join(f"{join_ranks(who)} {'was' if len(who) == 1 else 'were'} {place}" for place, who in places.items())
    return told + (still(evidence) if told else "")


def still(evidence: Evidence) -> str:
    """A clause that says for how long no rank has made a call or come back from one; "" if that is short."""
    moved_s = max((view.last_progress_s for view in evidence.ranks), default=0.0)
    quiet_s = evidence.taken_s - moved_s
    return f"; no rank has made a call for {format_seconds(quiet_s)}" if moved_s and quiet_s >= MOVED_S else ""


def unfinished(evidence: Evidence) -> str:
    """What is not over, or did not end well, in a world in which no rule finds a fault: "" if all is over and fine.

    >>> unfinished(Evidence(1, ranks=(RankView(0, error=CodeError("KeyError", "'y'", CallSite("cell 3", 5))),)))
    "the last cell of rank 0 ended with KeyError: 'y' (cell 3, line 5)"
    """
    running = [view for view in evidence.ranks if view.activity != Activity.IDLE and view.process != ProcessState.DEAD]
    if running:
        places: dict[str, list[int]] = {}
        for view in running:
            places.setdefault(doing(view) + _text_of(evidence, view), []).append(view.rank)
        told = "; ".join(f"{join_ranks(who)} {'is' if len(who) == 1 else 'are'} {place}" for place, who in places.items())
        return told + still(evidence)
    raised = [(view.rank, view.error) for view in evidence.ranks if view.error is not None]
    errors = fold(raised, key=lambda error: (error.type, str(error.site)))  # the messages may differ by their numbers alone
    return "; ".join(f"the last cell of {join_ranks(ranks)} ended with {_error(error)}" for ranks, error in errors)


def _error(error: CodeError) -> str:
    return error.said() + (f" ({error.site})" if error.site is not None else "")
