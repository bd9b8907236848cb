"""What holds for the view of every record: one text, 80 columns, nothing unescaped, and no fact that only a terminal has."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Any

import pytest

from labkit.diagnosis.grid import call_grid
from labkit.doctor.records import CheckResult, DoctorReport
from labkit.document import Cell, Code, Details, Group, Paragraph, Table, as_text
from labkit.exercises.lab03_measured import TABLES
from labkit.exercises.primes import Roll
from labkit.hosts import recorded as recorded_hosts
from labkit.instruments.scripts import ScriptRun
from labkit.labrecord import CheckSeen, Guess, LabRecord, OpSeen
from labkit.notes import Note
from labkit.schedule import ALGORITHMS, Link, Problem, count, predict, trace
from labkit.schedule.nccl_log import recorded as recorded_log
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Timing
from labkit.schedule.sweeps import Crossing, Point, Sweep
from labkit.tensors.replicas import Part, Replica, Replicas
from labkit.timeline import make_timeline
from labkit.views import VIEWS, row, to_html, to_text
from labkit.views._html import as_html
from labkit.views.costs import cost_curves
from labkit.views.traffic import traffic_matrix
from labkit.wire import Call, CallSite, Diagnosis, Evidence, OpResult, RankView

LINK = Link.of(latency_us=50, gb_per_s=1)
RING = ALGORITHMS["ring"].schedule(4)
HOSTILE = "\"'><script>x</script>"
KEPT_WIDTH = {"Sweep", "NcclLog"}  # as the tools of the field print them; their lines are for other programs as well


def timeline() -> Any:
    views = []
    for rank in range(2):
        calls = (
            Call(1, 1, "all_reduce", num_bytes=4096, site=CallSite("cell 7", 3), cell=7, state="done", issued_s=10.0 + 0.3 * rank,
                 returned_s=10.4),
            Call(2, 2, "reduce_scatter_tensor_coalesced", num_bytes=4096, site=CallSite("cell 7", 4), cell=7, issued_s=10.5),
        )  # fmt: skip
        views.append(RankView(rank, calls=calls[: 2 - rank]))
    return make_timeline(Evidence(2, ranks=tuple(views), taken_s=11.0))


def schedule_run() -> ScheduleRun:
    names = ("sent_messages", "received_messages", "sent_bytes", "received_bytes")
    loads = count(RING, 1000).by_rank
    counts = list(zip(*(getattr(loads, name).tolist() for name in names), strict=True))
    ranks = tuple(RankRun(rank, 2e-3, (1e-3, 0.0, 3e-4, 0.0, 0.0, 2e-4), *each, True, 0.0) for rank, each in enumerate(counts))
    return ScheduleRun("ring", "all_reduce", 4, 1000, "float32", "SUM", 4000, 6, True, 2e-3, ranks, tuple(counts))


def compared(size: int) -> Comparison:
    timings = [
        Timing(name, tuple(predict(name, 4, size, LINK).seconds * x for x in (1.0, 0.9, 1.2))) for name in ("naive", "ring")
    ]
    return Comparison(4, size, "float32", (*timings, Timing("library", (1e-3, 2e-3, 3e-3))))


def every(samples: Any) -> dict[str, Any]:
    """A record of each kind that has a view."""
    checks = (
        CheckResult("torch", "PyTorch", "ok", "2.15"),
        CheckResult("shm", "Memory", "warn", "64 MiB " * 20, "give it more " * 9),
    )
    points = [Point("all_reduce", "all_reduce", 4, 1 << n, "float32", 4, "SUM", (1e-3 * n, 2e-3 * n)) for n in range(10, 16)]
    found = [
        samples.hung(),
        OpResult("sum", (samples.printed(0, "hi\n"), dataclasses.replace(samples.printed(1, "x"), value=42))),
        dataclasses.replace(samples.printed(1, "x", value="5"), value=[1, 2]),
        samples.verdict(),
        Diagnosis((samples.verdict(),) * 2, samples.evidence()),
        samples.status(),
        samples.recovery("ranks"),
        samples.injection(fired=2, verdict="LK001"),
        samples.table([[1.0, 2.0], [1.0, 3.0]], before=[[0.0, 0.0]] * 2),
        timeline(),
        call_grid(samples.evidence(), samples.verdict()),
        CheckSeen("01/sum", False, "rank 2 has 5", num_tries=3, guess="You guessed 4. It was 5."),
        Guess("01/sum", 77),
        Roll(2, ((0, ("the sum of ranks 0 and 1",)), (1, ("the sum of rank 1",)))),
        LabRecord(
            "01-ring", True, world_size=2, pids={"0": (1,), "1": (2,)}, num_cells=3, collectives=(OpSeen("all_reduce", 4),),
            checks=(CheckSeen("01/sum", True, "77"),), open_checks=("01/ring",),
            faults=(samples.injection(fired=1, verdict="LK002"),), recoveries=(samples.recovery(),),
        ),
        next(iter(TABLES.values())) if isinstance(TABLES, dict) else TABLES[0],
        ScriptRun("cell_5.py", "import torch", 2, "x", 1, {"0": (77.0, 1.5), "1": (77.0, 1.5)}, "boom", 2.0),
        DoctorReport(checks, ranks=4, elapsed_s=2.0),
        Note("thrown-away", (0, 1), "all_reduce", "cell 7, line 3", "thrown away", "x stays. " * 20, "Name it", "f(x)"),
        Replicas(
            4,
            (
                Replica("net", "model", "Net", tuple(Part(f"w{n}", what="values", sides=((0, 1), (2,))) for n in range(12))),
                Replica("opt", "optimizer", "SGD", (Part("lr", "setting", sides=((0, 1, 2, 3),)),)),
            ),
            (("x", (0, 2)),),
        ),
        checks[1],
        predict("ring", 4, 1 << 20, LINK),
        trace(RING, 1000),
        Problem("wrong-result", "rank 2 ends without chunk 3", step=1),
        schedule_run(),
        compared(1 << 20),
        Sweep("gloo", 4, tuple(points), 2),
        Crossing("naive", "ring", 4, LINK, 400_000.0, 380_000.0, tuple(compared(1 << n) for n in (10, 15, 20))),
        recorded_hosts(),
        recorded_log("two-sockets"),
        cost_curves(4, {"ring": {1024.0: 1e-3, 4096.0: 2e-3}}, LINK, ["ring"]),
        traffic_matrix(ALGORITHMS["ring"].schedule(4), 1 << 20),
        row(Guess("01/a", 1), Guess("01/b", 2)),
    ]  # fmt: skip
    return {type(record).__name__: record for record in found}


@pytest.fixture(scope="session")
def records(samples: Any) -> dict[str, Any]:
    return every(samples)


@pytest.fixture(params=sorted(VIEWS))
def record(request: pytest.FixtureRequest, records: dict[str, Any]) -> Any:
    return records[request.param]


def hostile(value: Any) -> Any:
    """The record with an attack at the end of every text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{field.name: hostile(getattr(value, field.name)) for field in dataclasses.fields(value)}
        )
    if isinstance(value, tuple):
        return tuple(hostile(item) for item in value)
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    return value + HOSTILE if isinstance(value, str) else value


def test_a_record_has_one_text(record: Any) -> None:
    assert str(record) == repr(record) == to_text(record)
    assert f"{type(record).__name__}(" not in to_text(record)


def test_a_text_fits_a_terminal(record: Any) -> None:
    if type(record).__name__ not in KEPT_WIDTH:
        assert [line for line in to_text(record).splitlines() if len(line) > 80] == []


def test_what_a_terminal_says_of_ranks_and_codes_a_page_says_too(record: Any) -> None:
    page = html.unescape(re.sub(r"<[^>]+>", " ", to_html(record)))
    for fact in re.findall(r"\bLK\d{3}\b|\brank \d+\b|\bcell \d+\b", to_text(record)):
        assert fact in page or fact.split()[1] in re.findall(r"\d+", page), fact


def test_html_is_escaped(samples: Any) -> None:
    for kind in ("CellResult", "OpResult", "Outcome", "Verdict", "Diagnosis", "CallGrid", "WorldStatus", "RecoveryReport",
                 "Injection", "TensorTable", "Note", "Replicas", "CheckSeen",
                 "Guess", "Roll", "ScriptRun", "Problem", "Row"):  # fmt: skip
        assert "<script" not in to_html(hostile(every(samples)[kind])), kind


def test_every_part_of_a_tree_is_escaped() -> None:
    tree = [
        Paragraph(HOSTILE, "lead", tag=HOSTILE),
        Code(HOSTILE, "source"),
        Table((HOSTILE,), [[Cell(HOSTILE)], [HOSTILE]], caption=HOSTILE),
        Group([Details(HOSTILE, [Paragraph(HOSTILE)])], "lk-row"),
    ]
    assert "<script" not in as_html(tree)


def test_code_in_a_sentence_looks_like_code() -> None:
    assert as_html([Paragraph("call `f(<x>)` now")]) == "<p>call <code>f(&lt;x&gt;)</code> now</p>"
    assert as_text([Paragraph("call `f(<x>)` now")]) == "call `f(<x>)` now"


def test_a_wide_last_column_is_wrapped_and_the_others_stay() -> None:
    lines = as_text([Table(("a", "b"), [["1", "word " * 30]], words=True)]).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("1  word")
    assert lines[2].startswith("   word")
