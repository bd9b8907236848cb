"""What a lab did, as one record: proof that ranks ran, that the fault fired, and that the checks passed.

A notebook that ran without an error proves none of this: a cell that should have hung and did not looks
the same. So every lab keeps a `LabRecord`, and CI asserts on it. `Ledger` adds up what it is told; it
reads no clock and no file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .document import Printed
from .errors import join_ranks
from .places import cell_name
from .wire import CellResult, Evidence, Injection, RecoveryReport, record


@record
class OpSeen:
    """One kind of call: how often it was issued, all ranks together, and by which ranks."""

    op: str
    num_calls: int
    ranks: tuple[int, ...] = ()


@record
class Told:
    """A prediction held against what was found.

    `fit` is "right", "close" or "off", or "incomparable" where the two can't be compared; `says` is that in a line.
    """

    answer: Any
    unit: str = ""
    fit: str = "incomparable"
    says: str = ""


@record
class Guess(Printed):
    """A prediction that was made before looking, and how it did, once that is known."""

    name: str
    guess: Any = None
    told: Told | None = None


@record
class CheckSeen(Printed):
    """A check of a lab: whether it passed at last, what it said, how often it was tried, and how the prediction did.

    `again` is a pass after a pass: somebody looks once more, and that is no further try.
    """

    name: str
    passed: bool
    says: str = ""
    num_tries: int = 1
    guess: str = ""
    again: bool = False


@record
class LabRecord(Printed):
    """One run of one lab.

    `pids` are the processes that ran a rank's cells, by rank (its number as text); `processes` all that
    the world started; `verdicts` the codes that were given, by cell: where no fault was armed there should be
    none. `open_checks` are the lab's checks that have not passed. Times are in seconds.
    """

    lab: str
    finished: bool = False
    backend: str = ""
    mode: str = ""
    launcher: str = ""
    world_size: int = 0
    pids: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    processes: tuple[int, ...] = ()
    folder: str = ""
    generations: tuple[int, ...] = ()
    num_cells: int = 0
    collectives: tuple[OpSeen, ...] = ()
    faults: tuple[Injection, ...] = ()
    recoveries: tuple[RecoveryReport, ...] = ()
    verdicts: dict[str, str] = dataclasses.field(default_factory=dict)
    checks: tuple[CheckSeen, ...] = ()
    open_checks: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()
    timings: dict[str, float] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def num_processes(self) -> int:
        """How many different processes were ranks of the first generation."""
        return len({pids[0] for pids in self.pids.values() if pids})

    @property
    def predictions(self) -> dict[str, tuple[str, ...]]:
        """The names of the predictions by how they did, in words; what has not been looked at comes last."""
        fits = {"right": "right", "close": "close", "off": "off", "incomparable": "not comparable", "": "not looked at"}
        found = {
            words: tuple(guess.name for guess in self.guesses if (guess.told.fit if guess.told else "") == fit)
            for fit, words in fits.items()
        }
        return {words: names for words, names in found.items() if names}

    @property
    def unseen(self) -> str:
        """Why nothing is counted in a notebook that may be full of passed checks; empty if something was checked."""
        if self.checks or not self.open_checks:
            return ""
        return "Only what this kernel has run is counted, and it has made no check yet: Run All counts them again."

    def seen(self, op: str) -> OpSeen:
        """What is known of an operation; nothing at all is no calls."""
        return next((entry for entry in self.collectives if entry.op == op), OpSeen(op, 0))


def shortcomings(record: LabRecord, faults: Iterable[str] = ()) -> tuple[str, ...]:
    """What keeps a record from being proof of a whole run, as sentences; none is what CI wants.

    `faults` are the names of those that the lab must have brought about.

    >>> shortcomings(LabRecord("01-ring", finished=True, world_size=2, pids={"0": (7,), "1": (7,)}))
    ('2 ranks ran in 1 process', 'ranks 0 and 1 made no call')
    """
    found = [] if record.finished else ["it was not finished"]
    ran = {int(rank) for rank, pids in record.pids.items() if pids}
    if record.num_processes != record.world_size or not ran:
        found.append(f"{record.world_size} ranks ran in {_count(record.num_processes, 'process', 'es')}")
    called = {rank for entry in record.collectives for rank in entry.ranks}
    silent = [rank for rank in range(record.world_size) if rank not in called]
    found += [f"{join_ranks(silent)} made no call"] if silent else []
    found += [f"check {check.name} failed: {check.says}" for check in record.checks if not check.passed]
    tried = {check.name for check in record.checks}
    found += [f"check {name} was never made" for name in record.open_checks if name not in tried]
    fired = {fault.fault for fault in record.faults if fault.fired}
    found += [f"fault {name} did not fire" for name in faults if name not in fired]
    for fault in record.faults:
        if fault.fired and (fault.verdict not in fault.expected if fault.expected else fault.verdict):
            found.append(
                f"{fault.fault} was named {fault.verdict or 'by no verdict'}, not {' or '.join(fault.expected) or 'none'}"
            )
    declared = {code for fault in record.faults for code in fault.expected}
    stray = {cell_name(int(cell)): code for cell, code in record.verdicts.items() if code not in declared}
    found += [f"{cell} got {code} without a cause" for cell, code in stray.items()]
    hung = any(fault.fired and fault.ending in ("hang", "abort") for fault in record.faults)
    if hung and not any(report.rung != "none" for report in record.recoveries):
        found.append("the world was not recovered")
    return tuple(found)


def _count(number: int, word: str, plural: str) -> str:
    return f"{number} {word}{'' if number == 1 else plural}"


class Ledger:
    """Adds up what a lab does.

    >>> ledger = Ledger("01-ring")
    >>> ledger.checked("01/sum", True, "17 on every rank")
    ✓ 01/sum: 17 on every rank
    >>> ledger.record(elapsed_s=2.0).checks[0].passed
    True
    """

    def __init__(self, lab: str, *, versions: Mapping[str, str] | None = None, wanted: Iterable[str] = ()) -> None:
        self._base = LabRecord(lab, versions=dict(versions or {}))
        self._wanted = tuple(wanted)
        self._pids: dict[int, list[int]] = {}
        self._processes: dict[int, None] = {}
        self._generations: dict[int, None] = {}
        self._cells: dict[int, float] = {}
        self._verdicts: dict[str, str] = {}
        self._calls: dict[str, list[int]] = {}
        self._last: dict[tuple[int, int, int], int] = {}
        self._past_faults: list[Injection] = []
        self._faults: list[Injection] = []
        self._recoveries: list[RecoveryReport] = []
        self._checks: dict[str, CheckSeen] = {}
        self._guesses: dict[str, Guess] = {}
        self._start_s = 0.0

    def world(self, *, backend: str, mode: str, launcher: str, world_size: int, folder: str, started_in_s: float) -> None:
        """Which world the lab runs in."""
        self._base = dataclasses.replace(
            self._base, backend=backend, mode=mode, launcher=launcher, world_size=world_size, folder=folder
        )
        self._start_s = started_in_s

    def saw(self, evidence: Evidence) -> None:
        """Count the calls that are new in this look, and note who made them."""
        for view in evidence.ranks:
            if view.cell and view.pid not in self._pids.setdefault(view.rank, []):
                self._pids[view.rank].append(view.pid)
            if view.generation:
                self._generations[view.generation] = None
            life = (view.rank, view.pid, view.generation)
            last = self._last.get(life, 0)
            for call in view.calls:
                if call.index > last:
                    self._calls.setdefault(call.op, []).append(view.rank)
            self._last[life] = max([last, *(call.index for call in view.calls)])

    def processes(self, pids: Iterable[int]) -> None:
        """Processes that the world has started; those that have ended stay in the record."""
        self._processes.update(dict.fromkeys(pids))

    def faults(self, injections: Sequence[Injection]) -> None:
        """The world's injections as they stand now."""
        self._faults = list(injections)

    def cell(self, result: CellResult) -> None:
        """A rank cell has ended."""
        self._cells[result.cell] = result.elapsed_s
        if result.diagnosis is not None and result.diagnosis.verdict is not None:
            self._verdicts[str(result.cell)] = result.diagnosis.verdict.code

    def recovered(self, report: RecoveryReport) -> None:
        """A recovery; the world forgets its injections then, the ledger does not."""
        self._recoveries.append(report)
        if report.rung != "none":
            self._past_faults += self._faults
            self._faults = []

    def guessed(self, name: str, guess: Any) -> Guess:
        """A prediction; a later one of the same name replaces it."""
        self._guesses[name] = Guess(name, guess)
        return self._guesses[name]

    def guess_for(self, name: str) -> Guess | None:
        return self._guesses.get(name)

    def told(self, name: str, told: Told) -> None:
        """How a prediction did."""
        self._guesses[name] = dataclasses.replace(self._guesses[name], told=told)

    def checked(self, name: str, passed: bool, says: str, guess: str = "") -> CheckSeen:
        """A check has passed or failed; the last try counts. `guess` is the line on its prediction."""
        before = self._checks.get(name)
        again = before is not None and before.passed and passed
        tries = 1 if before is None else before.num_tries if again else before.num_tries + 1
        self._checks[name] = CheckSeen(name, passed, says, tries, guess, again)
        return self._checks[name]

    def record(self, *, elapsed_s: float, finished: bool = False) -> LabRecord:
        """All of it, as it stands."""
        names = (*self._wanted, *(name for name in self._checks if name not in self._wanted))
        return dataclasses.replace(
            self._base,
            finished=finished,
            pids={str(rank): tuple(pids) for rank, pids in sorted(self._pids.items())},
            processes=tuple(self._processes),
            generations=tuple(sorted(self._generations)),
            num_cells=len(self._cells),
            collectives=tuple(OpSeen(op, len(ranks), tuple(sorted(set(ranks)))) for op, ranks in sorted(self._calls.items())),
            faults=(*self._past_faults, *self._faults),
            recoveries=tuple(self._recoveries),
            verdicts=dict(self._verdicts),
            checks=tuple(self._checks[name] for name in names if name in self._checks),
            open_checks=tuple(name for name in names if name not in self._checks or not self._checks[name].passed),
            guesses=tuple(self._guesses.values()),
            timings={
                "start_s": self._start_s,
                "cells_s": sum(self._cells.values()),
                "recoveries_s": sum(report.elapsed_s for report in self._recoveries),
                "total_s": elapsed_s,
            },
        )
