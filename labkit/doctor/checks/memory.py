"""Is there host memory for every rank, also by the container's limit?"""

from __future__ import annotations

from ...units import format_bytes
from .. import cgroup
from ..base import Context, Finding, check
from ..system import available_memory_bytes, read_text

LEAST_BYTES = 150 * 2**20  # a forked rank that shares torch's pages with its siblings
USUAL_BYTES = 300 * 2**20  # a rank that imported torch itself


def judge_memory(available_bytes: int, group: cgroup.Room | None, ranks: int) -> Finding:
    free = available_bytes if group is None else min(available_bytes, group.free)
    limit = group.limit if group is not None else None
    where = f"of the container's {format_bytes(limit)}" if limit is not None and free < available_bytes else "on this machine"
    facts = {"free_bytes": free, "available_bytes": available_bytes, "limit_bytes": limit, "per_rank_bytes": free // ranks}
    text = f"{format_bytes(free)} free {where}, {format_bytes(free // ranks)} for each of {ranks}"
    step = f"use at most {max(1, free // USUAL_BYTES)} ranks, close other programs, or raise the container's --memory"
    if free < LEAST_BYTES * ranks:
        return Finding("fail", f"{text}; a rank needs 150 to 300 MiB", step, facts)
    if free < USUAL_BYTES * ranks:
        return Finding("warn", f"{text}; a rank needs up to 300 MiB", step, facts)
    return Finding("ok", text, facts=facts)


@check("memory", "Memory", order=30)
def run(context: Context) -> Finding:
    return judge_memory(available_memory_bytes(), cgroup.memory(read_text), context.ranks)
