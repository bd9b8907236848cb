"""A fault at work: where it is armed, whether it fired, and what it is expected to look like."""

from __future__ import annotations

from ..document import Block, Node, Pairs, Paragraph, Tree
from ..wire import Injection
from ._base import add

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


def tree(injection: Injection) -> Tree:
    """Fault, rank and state first; then what it does, with what, and what is expected of it."""
    parts: list[Node] = [Paragraph(f"{injection.fault} on rank {injection.rank}: {state(injection)}", "lead", mark="⚠")]
    parts += [Paragraph(injection.title, indent=2)] if injection.title else []
    return [Block([*parts, Pairs(rows(injection))], "wait")]


add(Injection, tree)
