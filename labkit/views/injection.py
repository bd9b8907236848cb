"""A fault at work: where it is armed, whether it fired, and what it is expected to look like."""

from __future__ import annotations

from ..wire import Injection
from . import _html as h
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


def text(injection: Injection) -> str:
    lines = [f"{injection.fault} on rank {injection.rank}: {state(injection)}"]
    lines += [f"  {injection.title}"] if injection.title else []
    return "\n".join([*lines, *(f"  {name}: {value}" for name, value in rows(injection))])


def html(injection: Injection) -> str:
    lead = f"⚠ {injection.fault} on rank {injection.rank}: {state(injection)}"
    body = h.para(lead, "lk-lead") + (h.para(injection.title) if injection.title else "")
    return h.block(body + (h.pairs(rows(injection)) if rows(injection) else ""), "wait")


add(Injection, text, html)
