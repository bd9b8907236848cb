"""The lab of this kernel: what a notebook holds as `lab`, and what the world tells it.

    lab = labkit.lab("01-every-rank-the-same")
    lab.predict("01/sum", 77)                       before looking
    lab.check("01/sum", world.tensors("x"))         after it; raises NotYet with a hint if it is not right
    lab.done()

If LABKIT_RECORD names a folder, the lab's record is kept there as `<lab>.json`: written anew after
everything that happens, whole or not at all, so that a killed kernel leaves its last state.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ..driver.core import WorldCore
from ..driver.current import HOLDER
from ..errors import UsageError
from ..exercises import CHECKS, NotYet, prediction_of
from ..exercises.guess import Found, compare, kept, no_guess, said
from ..files import written_whole
from ..labrecord import CheckSeen, Guess, LabRecord, Ledger
from ..wire import CellResult, Evidence, RecoveryReport, to_plain

_NAME = re.compile(r"\d\d-[a-z0-9-]+")
_PACKAGES = ("labkit", "torch", "ipyparallel", "ipykernel", "numpy")


class Lab:
    """A lab that is being worked on: predictions, checks, and the record of both."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name, self._folder = name, folder
        self._began_s = time.monotonic()
        wanted = [check for check in CHECKS if check.startswith(f"{name[:2]}/")]
        self._ledger = Ledger(name, versions=versions(), wanted=wanted)
        self.write(strict=True)

    def predict(self, name: str, guess: Any) -> Guess:
        """Write down what you expect, before you look. No answer is wrong here; having none is."""
        instead = no_guess(guess)
        if instead:
            what = f"{name} has no prediction yet" if instead == "nothing" else f"{name}: {instead} is no prediction"
            raise NotYet(what, hint="put your guess there; a wrong one is welcome")
        noted = self._ledger.guessed(name, kept(guess))
        self.write()
        return noted

    def check(self, name: str, *answer: Any) -> CheckSeen:
        """Hold an answer against the check of that name; NotYet says what is not right and where to look."""
        says, told, error = "", "", None
        check = CHECKS[name]
        try:
            says = check(*answer)
        except NotYet as missing:
            error, says = missing, missing.what
        except Exception as failure:
            failure.__traceback__ = _from(answer, failure.__traceback__)
            raise
        if error is None:
            told = self._told(name, says)
        seen = self._ledger.checked(name, error is None, str(says), told)
        self.write()
        if error is not None:
            raise error
        return seen

    def _told(self, name: str, says: str) -> str:
        """The line on the prediction that this check answers, if there is one; it is noted beside the guess, too."""
        asked = prediction_of(name)
        guess = self._ledger.guess_for(asked)
        if guess is None:
            return ""
        if not isinstance(says, Found):
            return f"You guessed {said(guess.guess)}."
        told = compare(guess.guess, says.answer)
        self._ledger.told(asked, told)
        return told.says if asked == name else f"{asked}: {told.says}"

    def done(self) -> LabRecord:
        """Close the lab; the record draws what was done and what is still open."""
        return self.write(finished=True)

    # ---- what the world tells
    def saw(self, world: WorldCore, result: CellResult | None = None, evidence: Evidence | None = None) -> None:
        """Take in what the world shows; `result` is of the cell that has just ended, `evidence` a look after its end."""
        ledger = self._ledger
        ledger.world(
            backend=world.backend, mode=world.mode, launcher=world.launcher, world_size=world.world_size,
            folder=str(world.folder), started_in_s=world.started_in_s,
        )  # fmt: skip
        ledger.saw(evidence or world.look(ask=False))
        ledger.processes(_noted(world.folder))
        ledger.faults(world.injections)
        if result is not None:
            ledger.cell(result)
        self.write()

    def recovered(self, report: RecoveryReport) -> None:
        """The world has been brought back."""
        self._ledger.recovered(report)
        self.write()

    def write(self, *, finished: bool = False, strict: bool = False) -> LabRecord:
        """The record as it stands, and its file if one is wanted; only a `strict` write may fail."""
        record = self._ledger.record(elapsed_s=time.monotonic() - self._began_s, finished=finished)
        if self._folder is not None:
            try:
                write_record(self._folder, record)
            except OSError as error:
                if strict:
                    raise UsageError(
                        f"can't write in {self._folder}: {error.strerror}",
                        hint="set LABKIT_RECORD to a folder of yours, or unset it",
                    ) from None
        return record


def _from(answer: tuple[Any, ...], stack: TracebackType | None) -> TracebackType | None:
    """The stack from a learner's own function on: what lies above it is ours, and no help. The whole one if there is none."""
    files = {each.__code__.co_filename for each in answer if hasattr(each, "__code__")}
    cut = stack
    while cut is not None and cut.tb_frame.f_code.co_filename not in files:
        cut = cut.tb_next
    return cut or stack


class Desk:
    """Holds the lab of this kernel, if one is open, and lets it hear what happens in a world."""

    lab: Lab | None = None

    def saw(self, world: WorldCore, result: CellResult | None = None, evidence: Evidence | None = None) -> None:
        """Something has happened. Costs nothing while no lab is open."""
        if self.lab is not None:
            self.lab.saw(world, result, evidence)

    def recovered(self, world: WorldCore, report: RecoveryReport) -> None:
        """The world has been brought back."""
        if self.lab is not None:
            self.lab.recovered(report)
            self.lab.saw(world)


DESK = Desk()


def lab(name: str) -> Lab:
    """Open a lab by the name of its notebook, for instance "01-every-rank-the-same"; again starts it anew."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of a lab", hint='it looks like "01-every-rank-the-same"')
    given = os.environ.get("LABKIT_RECORD", "").strip()
    DESK.lab = Lab(name, Path(given) if given else None)
    return DESK.lab


def write_record(folder: Path, record: LabRecord) -> Path:
    """Write `<lab>.json`, whole or not at all; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.lab}.json"
    with written_whole(path) as part:
        part.write_text(json.dumps(to_plain(record), indent=1))
    return path


def versions() -> dict[str, str]:
    """Versions of what a lab rests on, without importing any of it."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _noted(folder: Path) -> list[int]:
    """The pids that the world has written down in its folder, and the fork server's."""
    server = HOLDER.running_server
    try:
        pids = [int(pid) for pid in json.loads((folder / "world.json").read_text())["pids"]]
    except (OSError, ValueError, KeyError):
        pids = []
    return pids + ([server.pid] if server is not None else [])
