"""A world in miniature: programs in a short script, run by counting, and the evidence they leave behind.

    world("ar1 bc2", {2: "bc2 ar1"}).run().evidence()

A token is an op and its line ("ar1" is all_reduce at line 1), then what differs from the default:
":4" elements, "/f64" dtype, "^1" root or peer, "~max" reduce op, "%tp" group, "@3" tag, "=1,2,2,1" splits, "&" asynchronous.
The tokens busy3, raise3, die and stop do what they say; leave ends the cell.
"ng3%tp" makes the group tp, as all ranks must; "nl3%tp" as its members alone do; "end3" ends all groups.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from labkit.diagnosis import RULES, align
from labkit.makings import OF_ALL, OF_MEMBERS, OWN
from labkit.wire import Call, CallSite, CodeError, Evidence, Frame, RankView

OPS = {
    "ar": "all_reduce", "bc": "broadcast", "bar": "barrier", "ag": "all_gather", "rs": "reduce_scatter",
    "send": "send", "recv": "recv", "isend": "send", "irecv": "recv",
    "atoa": "all_to_all_single", "ng": "new_group", "nl": "new_group", "end": "destroy_process_group",
}  # fmt: skip
TOKEN = re.compile(r"([a-z]+)(\d*)(?::(\d+))?(?:/(\w+))?(?:\^(\d+))?(?:~(\w+))?(?:%(\w+))?(?:@(\d+))?(?:=([\d,]+))?(&)?$")
ECHO = CodeError("RuntimeError", "[pair.cc:561] Connection closed by peer [127.0.0.1]:1. This is typically caused by ...")
TICK_S = 0.001


@dataclass(frozen=True)
class Step:
    """One statement of a rank's program."""

    word: str
    line: int = 0
    numel: int = 8
    dtype: str = "float32"
    root: int = -1
    reduce_op: str = ""
    group: str = "world"
    is_async: bool = False
    tag: int = 0
    splits: tuple[int, ...] = ()
    chain: tuple[CallSite, ...] = ()

    @property
    def op(self) -> str:
        return OPS.get(self.word, self.word if self.chain else "")

    @property
    def p2p(self) -> bool:
        return self.op in ("send", "recv")


def steps(script: str) -> list[Step]:
    """The script's tokens as steps."""
    return [_step(token) for token in script.split()]


def _step(token: str) -> Step:
    found = TOKEN.match(token)
    assert found, token
    word, line, numel, dtype, root, reduce_op, group, tag, splits, is_async = found.groups()
    default_root = 0 if word == "bc" else -1
    return Step(
        word, int(line or 0), int(numel or 8), {"f64": "float64"}.get(dtype or "", dtype or "float32"),
        int(root) if root else default_root, reduce_op or ("sum" if word == "ar" else ""), group or "world",
        bool(is_async) or word in ("isend", "irecv"), int(tag or 0), tuple(map(int, splits.split(","))) if splits else (),
    )  # fmt: skip


def source_of(programs: list[list[Step]]) -> str:
    """A cell with one statement a line, as the programs' lines say."""
    lines: dict[int, str] = {step.line: f"dist.{step.op}(x)" for program in programs for step in program if step.op}
    return "\n".join(lines.get(number, "pass") for number in range(1, max(lines, default=0) + 1))


@dataclass
class World:
    """Ranks that run their programs call by call; a call is done when all members are in it."""

    programs: list[list[Step]]
    groups: dict[str, tuple[int, ...]]
    cell: int = 7
    mode: str = "raw"
    targets: tuple[int, ...] = ()
    source: str = ""
    now_s: float = 100.0
    calls: list[list[Call]] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    change: dict[int, dict[str, object]] = field(default_factory=dict)
    counts: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = len(self.programs)
        self.calls, self.at, self.counts = [[] for _ in range(size)], [0] * size, [{} for _ in range(size)]
        self.source = self.source or source_of(self.programs)

    # ---- running
    def run(self, ticks: int | None = None, seed: int = 0) -> World:
        """Let the ranks run until nothing moves (or for so many steps), in the order the seed gives."""
        chance = random.Random(seed)
        left = ticks if ticks is not None else 1 << 30
        while left > 0:
            able = [rank for rank in range(len(self.programs)) if self._can(rank)]
            if not able:
                break
            self._advance(chance.choice(able) if seed else able[0])
            left -= 1
        return self

    def _step(self, rank: int) -> Step | None:
        asked = not self.targets or rank in self.targets
        program = self.programs[rank]
        return program[self.at[rank]] if asked and self.at[rank] < len(program) else None

    def _waiting(self, rank: int) -> bool:
        calls = self.calls[rank]
        return bool(calls) and calls[-1].state == "issued" and not calls[-1].async_op

    def _can(self, rank: int) -> bool:
        self._settle(rank)
        step = self._step(rank)
        return not self._waiting(rank) and step is not None and bool(step.op)

    def _advance(self, rank: int) -> None:
        self.issue(rank)
        for other in range(len(self.programs)):
            self._settle(other)

    def issue(self, rank: int, state: str = "issued") -> None:
        """The rank makes its next call."""
        step = self._step(rank)
        assert step is not None
        seq = 0
        if not step.p2p:
            seq = self.counts[rank][step.group] = self.counts[rank].get(step.group, 0) + 1
        self.now_s += TICK_S
        if step.op in ("new_group", "destroy_process_group"):
            self._about_groups(rank, step)
            return
        site = step.chain[-1] if step.chain else CallSite(f"cell {self.cell}", step.line)
        shape = () if step.op == "barrier" else (step.numel,)
        self.calls[rank].append(
            Call(
                len(self.calls[rank]) + 1, seq, step.op, step.group, self.groups[step.group], shape, step.dtype, 4 * step.numel,
                step.reduce_op, step.root, step.is_async, site,
                self.cell, state, self.now_s, chain=step.chain, tag=step.tag, splits=step.splits,
            )
        )  # fmt: skip
        self.at[rank] += 1

    def _about_groups(self, rank: int, step: Step) -> None:
        kind = OWN if step.word == "end" else OF_MEMBERS if step.word == "nl" else OF_ALL
        members = () if step.word == "end" else self.groups[step.group]
        number = self.counts[rank][kind] = self.counts[rank].get(kind, 0) + 1
        if kind != OWN:
            number = self.counts[rank]["made"] = self.counts[rank].get("made", 0) + 1
        site = CallSite(f"cell {self.cell}", step.line)
        state = "issued" if rank in members else "done"
        self.calls[rank].append(
            Call(
                len(self.calls[rank]) + 1,
                number,
                step.op,
                kind,
                members,
                site=site,
                cell=self.cell,
                state=state,
                issued_s=self.now_s,
            )
        )
        self.at[rank] += 1

    def _met_making(self, call: Call) -> bool:
        made = [c for r in call.group_ranks for c in self.calls[r] if (c.op, c.group, c.seq) == (call.op, call.group, call.seq)]
        return len(made) == len(call.group_ranks) and {c.group_ranks for c in made} == {call.group_ranks}

    def _settle(self, rank: int) -> None:
        for index, call in enumerate(self.calls[rank]):
            met = self._met_making if call.group in (OF_ALL, OF_MEMBERS) else self._met
            if call.state == "issued" and (self._met_p2p(rank, call) if call.p2p else met(call)):
                self.calls[rank][index] = replace(call, state="done", returned_s=self.now_s)

    def _met(self, call: Call) -> bool:
        column = [c for r in call.group_ranks for c in self.calls[r] if (c.group, c.seq) == (call.group, call.seq)]
        same = {(c.op, c.shape, c.dtype, c.root) for c in column}
        return len(column) == len(call.group_ranks) and len(same) == 1

    def _met_p2p(self, rank: int, call: Call) -> bool:
        alike = [
            c.index for c in self.calls[rank] if (c.op, c.root, c.tag, c.group) == (call.op, call.root, call.tag, call.group)
        ]
        end = ("recv" if call.op == "send" else "send", rank, call.tag, call.group)
        return sum((c.op, c.root, c.tag, c.group) == end for c in self.calls[call.root]) > alike.index(call.index)

    # ---- what is seen
    def late(self, rank: int, seconds: float) -> World:
        """As if the rank had come so much later to its last call (all calls are done after it)."""
        line = self.calls[rank]
        line[-1] = replace(line[-1], issued_s=line[-1].issued_s + seconds)
        self.now_s += seconds
        return self

    def cut(self, after_s: float = 5.0) -> World:
        """The deadline: whoever waits is let go, with an error that is an echo."""
        self.now_s += after_s
        for rank in range(len(self.programs)):
            if self._waiting(rank) and self._state(rank) not in ("die", "stop"):
                self.calls[rank][-1] = replace(self.calls[rank][-1], state="failed", returned_s=self.now_s)
                self.change.setdefault(rank, {}).update(error=ECHO, activity="idle")
        for rank in range(len(self.programs)):
            if self._state(rank) == "busy":
                site = CallSite(f"cell {self.cell}", self._step(rank).line)
                self.change.setdefault(rank, {}).update(error=CodeError("KeyboardInterrupt", "", site), activity="idle", stack=())
        return self

    def refuse(self, message: str = "the ranks do not agree") -> World:
        """Safe mode: the calls that wait are refused, and every cell ends with a ContractError."""
        self.mode = "safe"
        for rank in range(len(self.programs)):
            if self._waiting(rank):
                self.calls[rank][-1] = replace(self.calls[rank][-1], state="refused", returned_s=self.now_s)
                self.change.setdefault(rank, {}).update(error=CodeError("ContractError", message), activity="idle")
        return self

    def but(self, rank: int, **changes: object) -> World:
        """Change what is seen of a rank."""
        self.change.setdefault(rank, {}).update(changes)
        return self

    def _state(self, rank: int) -> str:
        step = self._step(rank)
        return step.word if step is not None and not step.op else ""

    def evidence(self, waited_s: float = 2.0, **changes: object) -> Evidence:
        """All that is known, so many seconds after the last call."""
        taken_s = self.now_s + waited_s
        views = tuple(self._view(rank) for rank in range(len(self.programs)))
        found = Evidence(
            len(self.programs), mode=self.mode, cell=self.cell, targets=self.targets or tuple(range(len(self.programs))),
            taken_s=taken_s, ranks=views, sources={str(self.cell): self.source},
        )  # fmt: skip
        return replace(found, **changes)

    def _view(self, rank: int) -> RankView:
        step, state = self._step(rank), self._state(rank)
        seen: dict[str, object] = {"activity": "cell", "cell": self.cell, "generation": 1, "pid": 1000 + rank}
        if self._waiting(rank):
            seen["activity"] = "call"
        elif step is None or state in ("raise", "leave"):
            seen["activity"] = "idle"
            seen["cell"] = self.cell if not self.targets or rank in self.targets else self.cell - 1
        if state == "raise":
            seen["error"] = CodeError("ValueError", "bad batch", CallSite(f"cell {self.cell}", step.line))
        if state == "busy":
            seen["stack"] = (Frame("run.py", 1, "exec"), Frame(f"cell {self.cell}", step.line, "<module>"))
        if state == "die":
            seen.update(process="dead", exit_code=-9)
        if state == "stop":
            seen["process"] = "stopped"
        seen.update(self.change.get(rank, {}))
        return RankView(rank, calls=tuple(self.calls[rank]), **seen)


def world(script: str, differ: dict[int, str] | None = None, ranks: int = 4, **options: object) -> World:
    """A world where every rank runs `script`, but for those in `differ`; further groups by name."""
    programs = [steps((differ or {}).get(rank, script)) for rank in range(ranks)]
    groups = {"world": tuple(range(ranks)), **options.pop("groups", {})}
    return World(programs, groups, **options)


def claims_at_one_priority(evidence: Evidence) -> list[tuple[str, ...]]:
    """The codes of rules that claim the same calls and waits, and of which none yields to the other: there must be none."""
    seen = align(evidence)
    claims: dict[int, list[str]] = {}
    for rule in RULES.values():
        if not rule.independent and rule.claim(seen) is not None:
            claims.setdefault(rule.priority, []).append(rule.code)
    return [tuple(codes) for codes in claims.values() if len(codes) > 1]
