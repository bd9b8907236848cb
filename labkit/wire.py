"""The records that cross a process border: what ranks did, what was seen, what was judged, what was mended.

Each is frozen and plain (see `plain.py`), and its numbers have their units in the name. Nothing here acts.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .document import Printed
from .notes import Note
from .phrases import code_lines
from .places import CallSite, CodeError, Frame
from .plain import KIND, dumps, from_plain, int_keys, loads, record, to_plain
from .recovered import RecoveryReport
from .status import RankCard, WorldStatus
from .tensors import TensorSample, TensorTable
from .vocabulary import CallState

__all__ = [
    "KIND", "CallSite", "CodeError", "Frame", "RankCard", "RecoveryReport", "TensorSample", "TensorTable", "WorldStatus",
    "dumps", "from_plain", "int_keys", "loads", "record", "to_plain",
]  # fmt: skip


@record
class Call:
    """One collective or point-to-point operation as a rank issued it.

    `seq` counts the calls of one group from 1 within a generation (point-to-point calls have 0: only two ranks take part).
    `state` is "begun" (made, and not issued yet), "issued", "done", "failed" (its wait ended without it), "refused" (by the
    contract) or "invalid" (torch turned it down before it waited for anyone). Times are seconds of the machine's monotonic
    clock, one clock for all ranks of a host. A move of a schedule has its `algorithm`, `step`, number `move` and `request_id`,
    and in `planned` what it `carries` by its program, if that is not what was issued.

    `chain` is the way to the call through the learner's code, the outermost frame first; its last frame is `site`. `tag`
    belongs to point-to-point calls. `splits` of an all_to_all_single: what the rank gives to each rank, then what it takes from
    each. `asked` is the function on the line, where that is made of other calls ("gather_object"); `name` is it or the op.
    `part` is what a library's call is for ("DDP's gradient bucket 0 (0.weight)", with its `step`).
    """

    index: int
    seq: int
    op: str
    group: str = "world"
    group_ranks: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    num_bytes: int = 0
    reduce_op: str = ""
    root: int = -1
    async_op: bool = False
    site: CallSite | None = None
    cell: int = 0
    state: str = "issued"
    issued_s: float = 0.0
    returned_s: float = 0.0
    algorithm: str = ""
    step: int = 0
    move: int = 0
    request_id: int = 0
    planned: str = ""
    chain: tuple[CallSite, ...] = ()
    tag: int = 0
    splits: tuple[int, ...] = ()
    asked: str = ""
    part: str = ""

    @property
    def name(self) -> str:
        return self.asked or self.op

    @property
    def path(self) -> tuple[CallSite, ...]:
        """The frames of the learner's that lead to the call; the site alone where no chain was kept."""
        return self.chain or ((self.site,) if self.site is not None else ())

    @property
    def carries(self) -> str:
        """A move's number of elements, their dtype, and the reduce op if it adds: "1200 float32 sum"."""
        return " ".join(("x".join(map(str, self.shape)), self.dtype, self.reduce_op)).rstrip()

    @property
    def waits(self) -> bool:
        """The rank is inside of it: issued, not completed, and not asynchronous."""
        return self.state == CallState.ISSUED and not self.async_op

    @property
    def p2p(self) -> bool:
        return self.seq == 0

    def __str__(self) -> str:
        return self.name if self.p2p else f"{self.name} #{self.seq}"


@record
class RankView:
    """What one rank was seen doing: half from outside (process, beacon), half from its control thread.

    `process`: "running", "stopped" (SIGSTOP), "dead" or "unknown".
    `activity`: "idle" (waits for a cell), "cell" (runs cell `cell`) or "call" (inside its last call).
    `stack_from`: "control", "signal" or "py-spy" of a rank that lives; of one that is gone "crash" (written as it ended) or
    "seen" (of the last look before).
    `answers`: the rank's control thread answered; False while a rank holds the interpreter lock.
    `blocked`: asynchronous calls are open and the main thread uses no processor: it waits for one of them
    in C++ (DDP's backward), through a name, or by asking again and again.
    `handling`: the exception whose `except`, `finally` or `with` the main thread is in. `thread_error`: what ended another
    thread of this cell. `caught`: what the cell's own handlers have caught, the newest last.
    `calls`: its calls of this generation, oldest first, as many as the beacon keeps.
    """

    rank: int
    pid: int = 0
    process: str = "running"
    exit_code: int | None = None
    activity: str = "idle"
    cell: int = 0
    cell_started_s: float = 0.0
    error: CodeError | None = None
    calls: tuple[Call, ...] = ()
    stack: tuple[Frame, ...] = ()
    stack_from: str = ""
    answers: bool = True
    last_progress_s: float = 0.0
    generation: int = 0
    blocked: bool = False
    handling: CodeError | None = None
    thread_error: CodeError | None = None
    caught: tuple[CodeError, ...] = ()

    @property
    def waiting_in(self) -> Call | None:
        """The call this rank is inside of, if it is."""
        for call in self.calls:
            if call.waits:
                return call
        return None

    @property
    def path(self) -> tuple[CallSite, ...]:
        """The learner's frames on the stack, the outermost first: of rank cells and of the learner's own files."""
        return tuple(frame.site for frame in self.stack if frame.users or frame.site.cell)

    @property
    def line(self) -> CallSite | None:
        """The innermost line of the learner's on the stack."""
        return self.path[-1] if self.path else None

    @property
    def library(self) -> tuple[Frame, ...]:
        """The frames of libraries that the innermost line of the learner's has led to, the outermost first."""
        users = [at for at, frame in enumerate(self.stack) if frame.users or frame.site.cell]
        return self.stack[users[-1] + 1 :] if users else ()


@record
class Evidence:
    """All that is known of a world at one moment: what the judge judges.

    `sources` maps a cell number (as text), or the path of a file, to its source, so that a verdict can quote the line.
    `cell` is the newest cell number, `targets` the ranks it was sent to; calls of older cells are
    kept in the rank views but have another `Call.cell`. `broken`: the process groups are known not to work any more.
    """

    world_size: int
    backend: str = "gloo"
    mode: str = "raw"
    generation: int = 1
    cell: int = 0
    targets: tuple[int, ...] = ()
    taken_s: float = 0.0
    ranks: tuple[RankView, ...] = ()
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    broken: bool = False

    def source_line(self, site: CallSite | None) -> str:
        """The stripped source text of a site, or ""."""
        if site is None:
            return ""
        lines = code_lines(self.sources.get(self.source_key(site), ""))
        return lines[site.line - 1].strip() if 0 < site.line <= len(lines) else ""

    @staticmethod
    def source_key(site: CallSite) -> str:
        """What a site's source has in `sources`: the cell's number, or the path of the file."""
        return site.cell or site.file


@record
class Side:
    """One side of a disagreement: which ranks did what at which line."""

    ranks: tuple[int, ...]
    did: str
    site: CallSite | None = None
    source: str = ""


@record
class Verdict(Printed):
    """Who did what, where, and how to mend it.

    `code` is the rule's (LK001 ...), `ending` what the learner sees: "hang", "abort", "error",
    "silent" or "slow". `culprits` are the ranks that differ; `waiting` those that suffer.
    """

    code: str
    rule: str
    title: str
    sentence: str
    culprits: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    sides: tuple[Side, ...] = ()
    next_step: str = ""
    facts: tuple[str, ...] = ()
    ending: str = "hang"


@record
class Diagnosis(Printed):
    """The judge's answer: verdicts (none on a healthy world), the evidence they rest on, and the last cell's notes."""

    verdicts: tuple[Verdict, ...]
    evidence: Evidence
    elapsed_s: float = 0.0
    notes: tuple[Note, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.verdicts

    @property
    def verdict(self) -> Verdict | None:
        return self.verdicts[0] if self.verdicts else None


@record
class Shown:
    """A value as a rank shows it: `text` always, `html` where the value has it.

    `cut` is the number of characters left out of `text`; `type` names the value's type.
    """

    text: str
    type: str = ""
    html: str = ""
    cut: int = 0


@record
class Stream:
    """A piece of printed output; `name` is "stdout" or "stderr"."""

    name: str
    text: str


@record
class Outcome(Printed):
    """What became of one request on one rank.

    `status`: "ok", "error" (its code raised), "interrupted", "late" (no answer by the deadline), "stuck"
    (it can't answer any more: the cell was ended before its deadline) or "dead". `value` is a plain value of a rank op;
    `shown` the last expression of a cell. `caught`: what the cell's own handlers have caught, the newest last.
    """

    rank: int
    status: str = "ok"
    value: Any = None
    shown: Shown | None = None
    output: tuple[Stream, ...] = ()
    error: CodeError | None = None
    elapsed_s: float = 0.0
    caught: tuple[CodeError, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@record
class CellResult(Printed):
    """One rank cell: an outcome per rank, notes, and, if it did not end well, why and what was done.

    `standing`: where the ranks were at the deadline, if nothing is wrong with them.
    """

    cell: int
    outcomes: tuple[Outcome, ...]
    diagnosis: Diagnosis | None = None
    recovery: RecoveryReport | None = None
    elapsed_s: float = 0.0
    world_size: int = 0
    standing: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def ok(self) -> bool:
        return all(outcome.ok for outcome in self.outcomes)


@record
class OpResult(Printed):
    """The plain values a rank op returned, by rank."""

    op: str
    outcomes: tuple[Outcome, ...]
    elapsed_s: float = 0.0
    world_size: int = 0

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(outcome.value for outcome in self.outcomes)


@record
class Injection(Printed):
    """A fault at work: where, with what, how often it fired, and the verdict that was declared for it."""

    fault: str
    rank: int
    title: str
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    fired: int = 0
    expected: tuple[str, ...] = ()
    ending: str = ""
    verdict: str = ""
    active: bool = True
