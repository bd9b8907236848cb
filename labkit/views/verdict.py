"""A fault at work, and what a judge says: who did what, where, and how to mend it; the next step last."""

from __future__ import annotations

from ..diagnosis import unfinished
from ..diagnosis.grid import call_grid
from ..document import Block, Details, Group, Items, Node, Pairs, Paragraph, Tree
from ..places import cell_name
from ..wire import Diagnosis, Evidence, Injection, RankView, Verdict
from ._base import add
from ._text import count, fold, label, sentence
from .calls import picture, side_parts
from .notes import note_block


def verdict_block(verdict: Verdict, evidence: Evidence | None = None, *, in_text: bool = False) -> Block:
    """The block that also a cell's result and a diagnosis show; with evidence the picture of its calls, `in_text` too."""
    tag = f"{verdict.code} · {verdict.title}"
    mark, accent = ("…", "wait") if verdict.ending == "slow" else ("✗", "bad")  # slow is information: all of it is right
    parts: list[Node] = [Paragraph(sentence(verdict.sentence), "lead", mark=mark, label=verdict.code, tag=tag)]
    if evidence is not None:
        parts += picture(call_grid(evidence, verdict), in_text=in_text, short=True)
    elif verdict.sides:
        parts.append(Group(side_parts(verdict.sides, verdict.culprits), "lk-sides"))
    if verdict.facts:
        parts.append(Details(count(len(verdict.facts), "fact") + " behind this", [Items(verdict.facts)]))
    parts += [Paragraph(sentence(verdict.next_step), "next")] if verdict.next_step else []
    return Block(parts, accent)


def verdict_tree(verdict: Verdict) -> Tree:
    """One block."""
    return [verdict_block(verdict)]


def _doing(view: RankView) -> str:
    if view.process in ("dead", "stopped"):
        return view.process
    if view.waiting_in is not None and view.activity == "call":
        return f"in {view.waiting_in}"
    return f"in {cell_name(view.cell)}" if view.activity in ("cell", "call") else "idle"


def looked_at(evidence: Evidence) -> str:
    """For instance "all 4 ranks idle, 12 calls looked at, none open"."""
    everyone = range(evidence.world_size)
    states = fold([(view.rank, _doing(view)) for view in evidence.ranks], key=str)
    calls = [call for view in evidence.ranks for call in view.calls]
    still_open = sum(call.state == "issued" for call in calls)
    parts = [f"{label(ranks, everyone)} {state}" for ranks, state in states]
    parts.append(f"{count(len(calls), 'call')} looked at, {still_open or 'none'} open" if calls else "no call made yet")
    return ", ".join(parts)


def diagnosis_parts(diagnosis: Diagnosis) -> list[Node]:
    """All verdicts, the most important first; on a healthy world what was looked at. The last cell's notes follow."""
    notes = [note_block(note) for note in diagnosis.notes]
    left = unfinished(diagnosis.evidence) if diagnosis.healthy else ""
    if left:
        return [Block([Paragraph(f"no verdict: {left}", mark="…")], "wait"), *notes]
    if diagnosis.healthy and notes:
        return [Block([Paragraph(f"The ranks are well: {looked_at(diagnosis.evidence)}. But of the last cell:")]), *notes]
    if diagnosis.healthy:
        return [Block([Paragraph(f"no fault found: {looked_at(diagnosis.evidence)}", mark="✓")], "good")]
    shown, *rest = diagnosis.verdicts
    first, others = verdict_block(shown, diagnosis.evidence, in_text=True), [verdict_block(verdict) for verdict in rest]
    also: list[Node] = [Paragraph(f"And {count(len(others), 'more finding')}:")] if others else []
    return [first, *also, *others, *notes]


_ENDINGS = {
    "hang": "the ranks hang",
    "abort": "a process dies",
    "error": "an error is raised",
    "silent": "no error, but wrong numbers",
    "slow": "everything is right, but slow",
}


def state(injection: Injection) -> str:
    """For instance "armed, has not fired yet" or "fired once, no longer armed"."""
    times = {0: "has not fired yet", 1: "fired once", 2: "fired twice"}.get(injection.fired, f"fired {injection.fired} times")
    if injection.active:
        return f"armed, {times}" if not injection.fired else f"{times}, still armed"
    return f"{times}, no longer armed" if injection.fired else "no longer armed, never fired"


def rows(injection: Injection) -> list[tuple[str, str]]:
    found = []
    if injection.params:
        found.append(("with", ", ".join(f"{name}={value!r}" for name, value in sorted(injection.params.items()))))
    codes = f"verdict {' or '.join(injection.expected)}" if injection.expected else ""
    expected = [part for part in (_ENDINGS.get(injection.ending, injection.ending), codes) if part]
    if expected:
        found.append(("expected", "; ".join(expected)))
    if injection.verdict:
        agrees = not injection.expected or injection.verdict in injection.expected
        found.append(("seen", injection.verdict + ("" if agrees else ", which is not what was declared")))
    return found


def injection_tree(injection: Injection) -> Tree:
    """Fault, rank and state first; then what it does, with what, and what is expected of it."""
    parts: list[Node] = [Paragraph(f"{injection.fault} on rank {injection.rank}: {state(injection)}", "lead", mark="⚠")]
    parts += [Paragraph(injection.title, indent=2)] if injection.title else []
    return [Block([*parts, Pairs(rows(injection))], "wait")]


add(Verdict, verdict_tree)
add(Diagnosis, diagnosis_parts)
add(Injection, injection_tree)
