"""Can ranks be put on several hosts of this machine? Asked of a process of its own, as a world would ask."""

from __future__ import annotations

from ..base import Context, Finding, check
from ..probe import ask, python

_ASK = "from labkit.hosts import Shape, why_not; print(why_not(Shape('200mbit')))"


def judge_hosts(asked: bool, reason: str) -> Finding:
    """`reason`: why hosts can't be made, "" if they can; or, if it could not be `asked`, what went wrong."""
    facts = {"asked": asked, "reason": reason}
    if asked and not reason:
        return Finding("ok", "network namespaces can stand for hosts: labkit.start(4, hosts=2)", facts=facts)
    return Finding("note", f"{reason}; labs that measure hosts show a recording", facts=facts)


@check("hosts", "Several hosts", order=52, deadline_s=12)
def run(context: Context) -> Finding:
    answer = ask(python(_ASK), context.env, 10.0, context.stop)
    if answer.code or answer.late:
        return judge_hosts(False, f"it could not be found out ({answer.complaint()})")
    return judge_hosts(True, answer.out.strip())
