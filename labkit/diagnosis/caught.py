"""What a verdict adds on an exception that one rank has caught: its code goes on, and skips what the others do."""

from __future__ import annotations

from dataclasses import replace

from ..vocabulary import Ending
from ..wire import CodeError, Verdict
from . import words
from .alignment import Alignment

_TELL_THEMSELVES = ("LK001", "LK002", "LK003", "LK018")


def caught_alone(world: Alignment) -> dict[int, CodeError]:
    """The newest exception that a rank has caught, where not every rank has caught one at that place."""
    places = {rank: {(error.type, str(error.site)) for error in view.caught} for rank, view in world.views.items()}
    common = set.intersection(*places.values()) if places else set()
    found: dict[int, CodeError] = {}
    for rank, view in world.views.items():
        for error in view.caught:
            if (error.type, str(error.site)) not in common:
                found[rank] = error
    return found


def with_caught(world: Alignment, verdict: Verdict) -> Verdict:
    """The verdict with what some ranks have caught before, as a fact beside the cause."""
    errors = caught_alone(world) if verdict.code not in _TELL_THEMSELVES and verdict.ending != Ending.SLOW else {}
    culprits = {rank: error for rank, error in errors.items() if rank in verdict.culprits} or errors
    if not culprits:
        return verdict
    told = "; ".join(f"rank {rank} caught {error.said(120)}{words.at(error.site)}" for rank, error in culprits.items())
    sides = tuple(words.side(world.evidence, (rank,), f"caught {error.said(60)}", error.site) for rank, error in culprits.items())
    advice = "If it went on without its calls after that exception, let all ranks agree on such an error first."
    return replace(
        verdict,
        sentence=f"{verdict.sentence.rstrip('.')}. Before that, {told}.",
        sides=(*verdict.sides, *sides),
        next_step=f"{advice} {verdict.next_step}",
    )
