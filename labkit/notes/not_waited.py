"""Nobody waited for an asynchronous operation, or its tensor was changed or read before."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of

_TITLES = {
    "lost": "the asynchronous {op} was never waited for",
    "changed": "the tensor of the asynchronous {op} was changed before the wait",
    "used": "the tensor of the asynchronous {op} was used before anybody waited",
}


@NOTES.register("not-waited")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """Which handle, what happened to the tensor meanwhile, and where the wait belongs."""
    _, first = found[0]
    how = "lost" if any(finding.facts["how"] == "lost" for _, finding in found) else first.facts["how"]
    changed = any(finding.facts["changed"] for _, finding in found)
    parts = [f"This was so {on_ranks(found, everyone)}."]
    if how == "lost":
        parts.append("Nobody holds its handle any more, so nobody can know when the operation is over.")
    if changed:
        parts.append("Its tensor was changed while the operation was under way: what it holds now depends on which came first.")
    elif how == "used":
        parts.append("What was read may be the old values, the new ones, or a part of each.")
    given = f"dist.{first.op}(...{'' if first.op in ('isend', 'irecv') else ', async_op=True'})"
    if first.op == "batch_isend_irecv":
        step = "Keep the handles and wait for each: for work in dist.batch_isend_irecv(ops): work.wait()"
    elif how == "lost":
        step = f"Keep the handle, work = {given}, and call work.wait() before the tensor is read or changed"
    else:
        step = "Call wait() on the handle first, and read or change the tensor after that"
    title = _TITLES[how].format(op=first.op)
    return Note(first.kind, ranks_of(found), first.op, first.place, title, " ".join(parts), step, first.source)
