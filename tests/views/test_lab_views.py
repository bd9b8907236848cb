"""Lab records, script runs and the doctor's report: short texts, and HTML that says the same."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.doctor.records import CheckResult, DoctorReport
from labkit.exercises.primes import Roll
from labkit.instruments.scripts import ScriptRun
from labkit.labrecord import CheckSeen, Guess, LabRecord, OpSeen, Told
from labkit.views import to_html, to_text


def body(record: Any) -> str:
    return to_html(record).partition("</style>")[2]


def test_checks_and_guesses() -> None:
    assert to_text(CheckSeen("01/sum", True, "77 on every rank.")) == "✓ 01/sum: 77 on every rank."
    html = body(CheckSeen("01/sum", False, "rank 2 has <5>", num_tries=3))
    assert "✗ rank 2 has &lt;5&gt;" in html
    assert "at try 3" in html
    assert "at try" not in body(CheckSeen("01/sum", True, "77", num_tries=3, again=True))
    assert to_text(Guess("01/sum", 77)) == "Guess saved: 77. Run the next cell."
    assert "Guess saved: 77." in body(Guess("01/sum", 77))


def test_how_a_guess_did_stands_on_a_line_of_its_own() -> None:
    seen = CheckSeen("01/sum", True, "77 on every rank.", guess="You said <7>; it was 77.")
    assert to_text(seen).splitlines() == ["✓ 01/sum: 77 on every rank.", "  You said <7>; it was 77."]
    assert '<p class="lk-lead">✓ 77 on every rank.</p><p>You said &lt;7&gt;; it was 77.</p>' in body(seen)


def test_a_lab_record_says_of_each_prediction_how_it_did() -> None:
    fits = {"01/a": "off", "01/b": "right", "01/c": "right", "01/d": "incomparable", "01/e": "close"}
    guesses = tuple(Guess(name, 7, Told(8, "", fit, f"You said 7: {fit}.")) for name, fit in fits.items())
    record = LabRecord("01-ring", guesses=(*guesses, Guess("01/f", 7)))
    assert to_text(record).splitlines()[2:] == [
        "  predictions right: 01/b, 01/c",
        "  predictions close: 01/e",
        "  predictions off: 01/a",
        "  predictions not comparable: 01/d",
        "  predictions not looked at: 01/f",
    ]
    html = body(record)
    assert "<dt>predictions right</dt><dd>01/b, 01/c</dd>" in html
    assert "<summary>every prediction</summary><ul><li>01/a: You said 7: off.</li>" in html
    assert "01/f: " not in html
    assert "every prediction" not in body(LabRecord("01-ring", guesses=(Guess("01/f", 7),)))


def test_a_lab_that_was_opened_again_says_what_is_counted() -> None:
    record = LabRecord("01-ring", open_checks=("01/sum",))
    assert "<p>Only what this kernel has run is counted, and it has made no check yet: Run All" in body(record)
    assert "Only what" not in body(LabRecord("01-ring", checks=(CheckSeen("01/sum", False),), open_checks=("01/sum",)))


def test_a_roll() -> None:
    roll = Roll(2, ((0, ("the sum of ranks 0 and 1",)), (1, ("the sum of rank 1",))))
    assert to_text(roll) == "rank 0: the sum of ranks 0 and 1\nrank 1: the sum of rank 1"
    assert "<dt>rank 1</dt><dd>the sum of rank 1</dd>" in body(roll)


def test_a_lab_record_says_what_is_open(samples: Any) -> None:
    record = LabRecord(
        "01-ring", True, world_size=2, pids={"0": (1,), "1": (2,)}, num_cells=3, collectives=(OpSeen("all_reduce", 4, (0, 1)),),
        checks=(CheckSeen("01/sum", True, "77"),),
        open_checks=("01/ring",), faults=(samples.injection(fired=1, verdict="LK002"),),
        recoveries=(samples.recovery(),),
    )  # fmt: skip
    html = body(record)
    for words in (
        "01-ring: 1 of 2 checks passed",
        "01/ring",
        "2 processes, 4 calls, 3 rank cells",
        "fired, named LK002",
        "83 ms",
    ):
        assert words in html
    assert html.startswith('<div class="labkit"><section class="lk-block lk-wait">')


@pytest.mark.parametrize(
    ("code", "words"), [(0, "✓ ended with exit code 0"), (1, "✗ ended with exit code 1"), (None, "✗ did not end")]
)
def test_a_script_run(code: int | None, words: str) -> None:
    run = ScriptRun("cell_5.py", "import torch", 2, "x", code, {"0": (77.0, 1.5), "1": (77.0, 1.5)}, "boom", 2.0)
    assert words in body(run)
    assert ("boom" in body(run)) == (code != 0)
    text = to_text(run)
    assert text.splitlines()[0] == "torchrun --standalone --nproc-per-node 2 cell_5.py"
    assert "rank 1  77  1.5" in text


def test_the_doctor() -> None:
    results = (
        CheckResult("torch", "PyTorch", "ok", "2.15"),
        CheckResult("shm", "Shared memory", "warn", "64 MiB", "give the container --shm-size=1g"),
    )
    report = DoctorReport(results, ranks=4, elapsed_s=2.0)
    assert to_text(report) == (
        "ok    PyTorch        2.15\n"
        "WARN  Shared memory  64 MiB\n"
        "                     -> give the container --shm-size=1g\n"
        "Ready for 4 ranks, with 1 warning. (2.00 s)"
    )
    html = body(report)
    assert html.count('<td class="lk-status') == 2
    assert "! WARN" in html
    bad = DoctorReport((CheckResult("shm", "Shared memory", "fail", "none"),), ranks=1)
    assert "1 thing will not work for 1 rank" in to_text(bad)
    assert "✗ FAIL" in body(results[1].__class__("x", "y", "fail", "z"))


def test_every_output_carries_only_what_it_uses(samples: Any) -> None:
    assert len(to_html(CheckSeen("01/sum", True, "77"))) < 1_100
    assert ".lk-cards" not in to_html(samples.verdict())
    assert ".lk-cards" in to_html(samples.status())
