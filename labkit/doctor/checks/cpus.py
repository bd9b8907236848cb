"""Are there CPUs for the ranks? With fewer, everything works and every timing lies."""

from __future__ import annotations

import os

from .. import cgroup
from ..base import Context, Finding, check
from ..system import read_text


def judge_cpus(usable: int, quota: float | None, ranks: int) -> Finding:
    """`usable`: CPUs this process may run on; `quota`: CPUs' worth of time its container may use."""
    cpus = min(float(usable), quota) if quota is not None else float(usable)
    facts = {"usable": usable, "quota": quota, "cpus": cpus}
    text = f"{cpus:g} CPU{'s' * (cpus != 1)} for {ranks} rank{'s' * (ranks != 1)}"
    if ranks > 8 * cpus:
        step = f"use at most {max(2, int(4 * cpus))} ranks"
        return Finding("warn", f"{text}: starts and collectives will be slow", step, facts)
    if ranks > cpus:
        return Finding("note", f"{text}: it works, but timings measure the scheduler too", facts=facts)
    return Finding("ok", text, facts=facts)


@check("cpus", "CPUs", order=31)
def run(context: Context) -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return judge_cpus(usable, cgroup.cpus(read_text), context.ranks)
