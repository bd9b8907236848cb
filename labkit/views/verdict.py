"""Who did what, where, and how to mend it: the sentence first, the next step last."""

from __future__ import annotations

from ..errors import join_ranks
from ..wire import Side, Verdict
from . import _html as h
from ._base import add
from ._text import count, indent, one_line, sentence


def side_line(side: Side) -> str:
    """For instance "rank 2: called broadcast #5 (cell 7, line 3)"."""
    return f"{join_ranks(side.ranks)}: {side.did}" + (f" ({side.site})" if side.site is not None else "")


def text(verdict: Verdict) -> str:
    lines = [f"{verdict.code}: {sentence(verdict.sentence)}"]
    for side in verdict.sides:
        lines.append(indent(side_line(side)))
        if side.source:
            lines.append(indent(one_line(side.source, 120), "      "))
    if verdict.next_step:
        lines.append(f"Next: {sentence(verdict.next_step)}")
    return "\n".join(lines)


def verdict_block(verdict: Verdict) -> str:
    """The block that also a cell's result and a diagnosis show."""
    body = f'<div class="lk-tag">{h.esc(verdict.code)} · {h.esc(verdict.title)}</div>'
    body += h.para("✗ " + sentence(verdict.sentence), "lk-lead")
    sides = ""
    for side in verdict.sides:
        mark = "lk-side lk-odd" if set(side.ranks) & set(verdict.culprits) else "lk-side"
        source = h.pre(one_line(side.source, 120), "lk-source") if side.source else ""
        sides += f'<div class="{mark}">{h.para(side_line(side))}{source}</div>'
    if sides:
        body += f'<div class="lk-sides">{sides}</div>'
    if verdict.facts:
        body += h.details(count(len(verdict.facts), "fact") + " behind this", h.bullets(verdict.facts))
    if verdict.next_step:
        body += f'<p class="lk-next"><b>Next:</b> {h.esc(sentence(verdict.next_step))}</p>'
    return h.block(body, "bad")


add(Verdict, text, verdict_block)
