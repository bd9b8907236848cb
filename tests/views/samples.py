"""Records as ranks would send them, for the views' tests and the gallery."""

from __future__ import annotations

from labkit.wire import (
    Call,
    CallSite,
    CellResult,
    CodeError,
    Diagnosis,
    Evidence,
    Injection,
    Outcome,
    RankCard,
    RankView,
    RecoveryReport,
    Shown,
    Side,
    Stream,
    TensorSample,
    TensorTable,
    Verdict,
    WorldStatus,
)

SOURCE = "# %%ranks\nif rank == 2:\n    dist.broadcast(x, 0)\nelse:\n    dist.all_reduce(x)\n"
ZERO = CodeError(
    "ZeroDivisionError",
    "division by zero",
    CallSite("cell 3", 2),
    "Traceback (most recent call last):\n"
    '  File "cell 3", line 2, in <module>\n    y = 1 / 0\nZeroDivisionError: division by zero\n',
)


def printed(rank: int, *texts: str, value: str = "", name: str = "stdout") -> Outcome:
    shown = Shown(value) if value else None
    return Outcome(rank, output=tuple(Stream(name, text) for text in texts), shown=shown)


def raised(rank: int, error: CodeError = ZERO) -> Outcome:
    return Outcome(rank, status="error", error=error)


def verdict() -> Verdict:
    return Verdict(
        code="LK002",
        rule="different-collective",
        title="Ranks are in different collectives",
        sentence="rank 2 called broadcast (cell 7, line 3) while ranks 0, 1 and 3 wait in all_reduce #5 (cell 7, line 5)",
        culprits=(2,),
        waiting=(0, 1, 3),
        sides=(
            Side((2,), "called broadcast #5", CallSite("cell 7", 3), "dist.broadcast(x, 0)"),
            Side((0, 1, 3), "wait in all_reduce #5", CallSite("cell 7", 5), "dist.all_reduce(x)"),
        ),
        next_step="call the same collective on every rank, in the same order",
        facts=("rank 2 returned from no call for 1.2 s", "no rank made progress since call #4"),
    )


def evidence(healthy: bool = False) -> Evidence:
    done = Call(1, 1, "all_reduce", state="done")
    waits = Call(2, 2, "all_reduce", cell=7)
    views = tuple(
        RankView(rank, activity="idle" if healthy else "call", cell=7, calls=(done,) if healthy else (done, waits))
        for rank in range(4)
    )
    return Evidence(4, cell=7, targets=(0, 1, 2, 3), ranks=views, sources={"7": SOURCE})


def recovery(rung: str = "soft") -> RecoveryReport:
    kept = {str(rank): ("model", "x") for rank in range(4)}
    lost: dict[str, tuple[str, ...]] = {}
    if rung == "ranks":
        kept, lost = {str(rank): ("model", "x") for rank in (0, 1, 3)}, {"2": ("model", "x")}
    return RecoveryReport(
        rung,
        2,
        freed=(0, 1, 3),
        replaced=(2,) if rung == "ranks" else (),
        kept=kept,
        lost=lost,
        steps=("cut the sockets of ranks 0, 1 and 3", "new group in generation 2"),
        check="all_reduce of ones gave 4 on every rank",
        elapsed_s=0.083,
    )


def hung() -> CellResult:
    outcomes = (printed(0, "before\n"), *(Outcome(rank, status="late") for rank in (1, 3)), Outcome(2, status="late"))
    outcomes = (Outcome(0, status="late", output=outcomes[0].output), *outcomes[1:])
    return CellResult(7, outcomes, Diagnosis((verdict(),), evidence()), recovery(), 5.0)


def table(
    rows: list[list[float]], before: list[list[float]] | None = None, dtype: str = "float32", shape: tuple[int, ...] | None = None
) -> TensorTable:
    samples = []
    for rank, values in enumerate(rows):
        total = 1
        for size in shape or (len(values),):
            total *= size
        step = max(1, total // max(len(values), 1))
        samples.append(
            TensorSample(
                rank,
                "x",
                shape or (len(values),),
                dtype,
                "cpu",
                total * 4,
                tuple(values),
                tuple(i * step for i in range(len(values))),
                before=tuple(before[rank]) if before else None,
                op="all_reduce" if before else "",
                minimum=min(values, default=None),
                maximum=max(values, default=None),
                mean=sum(values) / len(values) if values else None,
                digest=repr(values),
            )
        )
    return TensorTable("x", tuple(samples))


def status() -> WorldStatus:
    cards = (
        RankCard(0, 4201, "cpu", "gloo", "idle", memory_bytes=180 * 2**20),
        RankCard(1, 4202, "cpu", "gloo", "waiting", "in all_reduce #5", "cell 7, line 5", memory_bytes=181 * 2**20),
        RankCard(2, 4203, "cpu", "gloo", "dead", detail="ended with signal 9", memory_bytes=0),
        RankCard(3, 4204, "cpu", "gloo", "running", "in cell 7", memory_bytes=182 * 2**20),
    )
    return WorldStatus(
        4, "gloo", "raw", 2, "fork", cards, started_in_s=1.84, note="rank 2 is gone; world.recover() makes a new one"
    )


def injection(**changes: object) -> Injection:
    facts: dict[str, object] = {
        "fault": "swapped-order",
        "rank": 2,
        "title": "One rank calls two collectives in the other order",
        "params": {"at": 1},
        "expected": ("LK002", "LK003"),
        "ending": "hang",
    }
    return Injection(**{**facts, **changes})  # type: ignore[arg-type]
