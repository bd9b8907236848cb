"""What a recovery did and what it left, as a record and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from .document import Printed
from .errors import join_ranks
from .phrases import few, fold, label, sentence
from .places import cell_name
from .plain import int_keys, record

_NAMES = 12  # of variables in one line


@record
class Restored:
    """What a new rank was given of what the one before it knew.

    `names` are as they were after cell `cell`; `made` are imports, functions, classes and constants that were made again
    from their source. `lost` says why a name is not there, and `remarks` what of one is missing. `why`: there was no twin.
    """

    rank: int
    cell: int = 0
    names: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    lost: dict[str, str] = dataclasses.field(default_factory=dict)
    remarks: dict[str, str] = dataclasses.field(default_factory=dict)
    why: str = ""

    @property
    def there(self) -> tuple[str, ...]:
        """All names that the new rank has."""
        return (*self.names, *self.made)


@record
class RecoveryReport(Printed):
    """What recovery did, and what was kept, restored and lost.

    `rung`: "none" (was healthy), "soft" (every process and variable kept), "ranks" (some replaced),
    "world" (all replaced) or "cluster" (engines, controller and fork server started anew). `kept` are variables of ranks
    that lived on, `lost` those that a new rank has not; `restored` is what it has, and why it has no more.
    """

    rung: str
    generation: int
    freed: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    kept: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    lost: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    steps: tuple[str, ...] = ()
    check: str = ""
    restored: tuple[Restored, ...] = ()
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
    """The sentences below a cell's result: what was done, what a new rank has of the one before, what is lost, and why."""
    if report.rung == "none":
        return sentence("Recovery: " + done(report))
    gone = [f"{join_ranks(ranks)}: {text}" for ranks, text in _lost(report)]
    lost = [sentence("Lost on " + "; on ".join(gone))] if gone else []
    why = [sentence(f"{join_ranks(ranks).capitalize()}: {text}") for ranks, text in _without(report)] if gone else []
    return " ".join([sentence(f"Recovered {about(report.elapsed_s)}: {done(report)}"), *_given(report), *lost, *why])


def _given(report: RecoveryReport) -> list[str]:
    """What new ranks were given, a sentence each for ranks that were given as much of the same cell."""
    found = []
    for ranks, (cell, count) in fold([(each.rank, (each.cell, len(each.names))) for each in report.restored], key=lambda it: it):
        if count == len(ranks) == 1:
            found.append(f"The one variable of {join_ranks(ranks)} was restored as it was after {cell_name(cell)}.")
        elif count:
            many = f"{count} variables{' each' * (len(ranks) > 1)}"
            found.append(f"{join_ranks(ranks).capitalize()}: {many}, restored as they were after {cell_name(cell)}.")
    for ranks, made in fold([(each.rank, each.made) for each in report.restored if not each.names], key=lambda it: it):
        if made:
            found.append(f"{join_ranks(ranks).capitalize()} made again, from the source of the cells: {_list(made)}.")
    return found


def _lost(report: RecoveryReport) -> list[tuple[tuple[int, ...], str]]:
    """What each new rank lacks, each name with its reason."""
    known = {each.rank: each for each in report.restored}
    found = []
    for rank, names in int_keys(report.lost).items():
        reasons = known[rank].lost if rank in known else {}
        later = f"made after {cell_name(known[rank].cell)}" if rank in known and known[rank].names and not known[rank].why else ""
        if names:
            found.append((rank, _list([name + _because(reasons.get(name, later)) for name in names])))
    return fold(found, key=lambda text: text)


def _again(new: Restored) -> str:
    """What one new rank has, each name with what of it is missing."""
    return _list([name + _because(new.remarks.get(name, "")) for name in new.there])


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _without(report: RecoveryReport) -> list[tuple[tuple[int, ...], str]]:
    """Why there was no twin to restore ranks from."""
    return fold([(each.rank, f"no variable was kept, since {each.why}") for each in report.restored if each.why], key=str)


def _same_names(mapping: Mapping[str, tuple[str, ...]]) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    return fold([(rank, tuple(names)) for rank, names in int_keys(dict(mapping)).items() if names], key=lambda names: names)


def _list(names: Sequence[str]) -> str:
    return few(names, _NAMES)


def _by_rank(mapping: Mapping[str, tuple[str, ...]], everyone: Collection[int]) -> str:
    return "; ".join(f"{_list(names)} ({label(ranks, everyone)})" for ranks, names in _same_names(mapping)) or "nothing"


def rows(report: RecoveryReport) -> list[tuple[str, str]]:
    """Kept, restored, lost, check: what there is to say of each."""
    everyone = sorted({*int_keys(report.kept), *int_keys(report.lost), *report.freed, *report.replaced})
    found = []
    if report.kept or report.lost:
        found.append(("kept", _by_rank(report.kept, everyone)))
        again = [
            (each.rank, _list([n + _because(each.remarks.get(n, "")) for n in (*each.names, *each.made)]))
            for each in report.restored
        ]
        if any(text for _, text in again):
            folded = fold([(rank, text) for rank, text in again if text], key=str)
            found.append(("restored", "; ".join(f"{text} ({label(ranks, everyone)})" for ranks, text in folded)))
        lost = _lost(report)
        found.append(("lost", "; ".join(f"{text} ({label(ranks, everyone)})" for ranks, text in lost) or "nothing"))
        if lost and (without := _without(report)):
            found.append(("why", "; ".join(f"{text} ({label(ranks, everyone)})" for ranks, text in without)))
    return found + ([("check", report.check)] if report.check else [])
