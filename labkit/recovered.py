"""What a recovery did and what it left, as a record and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from .document import Printed
from .errors import join_ranks
from .phrases import fold, label, sentence
from .plain import int_keys, record

_NAMES = 12  # of variables in one line


@record
class RecoveryReport(Printed):
    """What recovery did, and what was kept and lost.

    `rung`: "none" (was healthy), "soft" (every process and variable kept), "ranks" (some replaced),
    "world" (all replaced) or "cluster" (engines, controller and fork server started anew).
    """

    rung: str
    generation: int
    freed: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    kept: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    lost: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    steps: tuple[str, ...] = ()
    check: str = ""
    elapsed_s: float = 0.0


def done(report: RecoveryReport) -> str:
    """What was done, without a full stop: "freed ranks 0 and 1; every process and variable kept"."""
    if report.rung == "none":
        return "nothing to recover: every rank was healthy"
    acts = [f"freed {join_ranks(report.freed)}"] if report.freed else []
    if report.rung == "soft":
        acts.append("every process kept" if any(report.lost.values()) else "every process and variable kept")
    elif report.rung == "ranks":
        acts.append(
            f"replaced {join_ranks(report.replaced)} with {'a new process' if len(report.replaced) == 1 else 'new processes'}"
        )
    else:
        acts.append("started every rank anew" if report.rung == "world" else "started the whole cluster anew")
    return "; ".join(acts)


def about(seconds: float) -> str:
    """A time that is the same in every run, so that saved outputs can be compared."""
    return "in under a second" if seconds < 1 else f"in about {seconds:.0f} s"


def in_a_sentence(report: RecoveryReport) -> str:
    """The one or two sentences below a cell's result."""
    if report.rung == "none":
        return sentence("Recovery: " + done(report))
    gone = [f"{join_ranks(ranks)}: {_list(names)}" for ranks, names in _same_names(report.lost)]
    lost = [sentence("Lost on " + "; on ".join(gone))] if gone else []
    return " ".join([sentence(f"Recovered {about(report.elapsed_s)}: {done(report)}"), *lost])


def _same_names(mapping: Mapping[str, tuple[str, ...]]) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    return fold([(rank, tuple(names)) for rank, names in int_keys(dict(mapping)).items() if names], key=lambda names: names)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")


def _by_rank(mapping: Mapping[str, tuple[str, ...]], everyone: Collection[int]) -> str:
    return "; ".join(f"{_list(names)} ({label(ranks, everyone)})" for ranks, names in _same_names(mapping)) or "nothing"


def rows(report: RecoveryReport) -> list[tuple[str, str]]:
    """Kept, lost, check: what there is to say of each."""
    everyone = sorted({*int_keys(report.kept), *int_keys(report.lost), *report.freed, *report.replaced})
    found = []
    if report.kept or report.lost:
        found += [("kept", _by_rank(report.kept, everyone)), ("lost", _by_rank(report.lost, everyone))]
    return found + ([("check", report.check)] if report.check else [])
