"""Cells that are broken and do not say how: the clinic of the lab "When it hangs".

A learner looks at the source and at the ranks, says who differs, on which line and in what way, and only
then reads the verdict. All cases work on three ranks and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import join_ranks
from ..wire import CellResult, record
from ._base import NotYet, no_text

KINDS: Mapping[str, str] = {
    "order": "LK004",
    "left early": "LK007",
    "raised": "LK003",
    "twins": "LK008",
    "skipped": "LK009",
    "size": "LK005",
    "late": "LK011",
}


@record
class Case:
    """A broken cell. `lines` are those on which the cause can be seen, the one to be mended among them."""

    code: str
    kind: str
    lines: tuple[int, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{number:2}  {line}" for number, line in enumerate(self.code.splitlines(), start=1))


CASES = (
    Case(
        "right, seen = abs(rank - 1), 2 * abs(rank - 1)\n"
        "grad = torch.full((4,), float(rank + 1))\n"
        "total = grad.sum()\n"
        "dist.all_reduce(total)\n"
        "accuracy = torch.tensor([right / seen])\n"
        "dist.all_reduce(accuracy)\n",
        "raised",
        (1, 5),
    ),
    Case(
        "loss = torch.tensor([float('nan') if rank == 2 else 1.0])\n"
        "steps = torch.tensor([1.0])\n"
        "if loss.item() > 0:\n"
        "    dist.all_reduce(loss)\n"
        "dist.all_reduce(steps)\n"
        "steps.item()\n",
        "skipped",
        (3, 4),
    ),
    Case(
        "weight = torch.full((4,), float(rank + 1))\n"
        "bias = torch.full((4,), 100.0 * (rank + 1))\n"
        "def weight_is_ready():\n"
        "    dist.all_reduce(weight)\n"
        "def bias_is_ready():\n"
        "    dist.all_reduce(bias)\n"
        "hooks = [weight_is_ready, bias_is_ready]\n"
        "for hook in reversed(hooks) if rank == 0 else hooks:\n"
        "    hook()\n",
        "twins",
        (4, 6, 8),
    ),
)


def answered(case: Case, answer: object, result: object) -> str:
    """Hold what a learner says against the case and the verdict that the cell was given."""
    said = _read(answer)
    verdict = result.diagnosis.verdict if isinstance(result, CellResult) and result.diagnosis else None
    if verdict is None or verdict.code != KINDS[case.kind]:
        raise NotYet("this result does not belong to the case", hint="run world.recover(), then the case's cell again")
    culprits = verdict.culprits
    if said["rank"] not in culprits:
        raise NotYet(f"rank {said['rank']} does the same as most ranks", hint="look for the rank that differs")
    if said["kind"] != case.kind:
        raise NotYet(f"the kind is not {said['kind']!r}", hint="compare the calls of this rank with those of the others")
    if said["line"] not in case.lines:
        raise NotYet(
            f"the problem does not start on line {said['line']}",
            hint="on which line do the ranks separate? It can be before the line where they wait",
        )
    return f"right: {join_ranks(culprits)}, line {said['line']}, {case.kind}. The verdict is {verdict.code}."


def _read(answer: object) -> dict[str, Any]:
    wanted = {"rank": int, "line": int, "kind": str}
    for key in ("rank", "line"):
        no_text(f"your answer says of the {key}", answer.get(key) if isinstance(answer, Mapping) else None)
    if not isinstance(answer, Mapping) or any(not isinstance(answer.get(key), kind) for key, kind in wanted.items()):
        raise NotYet("this is not an answer", hint='write it like {"rank": 0, "line": 1, "kind": "order"}')
    if answer["kind"] not in KINDS:
        raise NotYet(f"unknown kind {answer['kind']!r}", hint=f"the kinds are: {', '.join(KINDS)}")
    return dict(answer)
