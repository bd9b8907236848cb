"""Are labkit's own variables well formed?"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ..base import Context, Finding, check, worst

BACKENDS = ("auto", "gloo", "nccl")
MOST_RANKS = 1024


def judge_settings(env: Mapping[str, str]) -> Finding:
    mine = {name: value for name, value in sorted(env.items()) if name in ("LABKIT_RANKS", "LABKIT_BACKEND")}
    found = []
    ranks = env.get("LABKIT_RANKS")
    if ranks is not None:
        text = ranks.strip()
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_RANKS):
            step = "set it to a number from 1 up, as in 4"
            found.append(Finding("fail", f"LABKIT_RANKS={ranks!r} is not a number of ranks", step))
    backend = env.get("LABKIT_BACKEND")
    if backend is not None and backend.strip().lower() not in BACKENDS:
        near = difflib.get_close_matches(backend.lower(), BACKENDS, n=1)
        step = f"did you mean {near[0]}?" if near else f"set it to one of: {', '.join(BACKENDS)}"
        found.append(Finding("fail", f"LABKIT_BACKEND={backend!r} is no backend", step))
    text = ", ".join(f"{name}={value}" for name, value in mine.items()) or "LABKIT_RANKS and LABKIT_BACKEND are not set"
    return worst(found, Finding("ok", text, facts=mine))


@check("settings", "labkit settings", order=43)
def run(context: Context) -> Finding:
    return judge_settings(context.env)
