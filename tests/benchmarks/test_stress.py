"""What the long trials count as wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.stress.chaos import ChaosReport, Held, MiB
from benchmarks.stress.confusion import Confusion
from benchmarks.stress.healthy import healthy, said_of
from benchmarks.stress.programs import PROGRAMS
from labkit.notes import Finding
from labkit.testing import Script, ok, raises

CALM = [Held(50, 8, 100 * MiB)] * 3


def test_a_calm_trial_has_no_problem() -> None:
    report = ChaosReport(60, Counter(ranks=60), held=CALM)
    assert report.problems == []
    assert str(report) == "60 faults; recovered by: ranks 60\nno problem was found"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (Held(56, 8, 100 * MiB), "descriptors grew from 50 to 56"),
        (Held(50, 9, 100 * MiB), "had 8 child processes and has 9"),
        (Held(50, 8, 131 * MiB), "memory grew from 100 to 131 MiB"),
    ],
)
def test_what_grows_is_a_problem(last: Held, said: str) -> None:
    assert [said in line for line in ChaosReport(60, held=[*CALM, last]).problems] == [True]


def test_a_wrong_verdict_a_wrong_sum_and_a_new_controller_are_problems() -> None:
    assert len(ChaosReport(1, unnamed=["a"], unhealthy=["b"], restarted=True).problems) == 3


@pytest.mark.parametrize(
    ("code", "culprits", "size", "wrong"),
    [
        ("LK001", (1,), 3, 0),
        ("LK001", (0, 1), 2, 0),
        ("LK001", (0, 1), 3, 1),
        ("LK001", (2,), 3, 1),
        ("LK003", (1,), 3, 1),
        ("", (), 3, 1),
    ],
)
def test_another_code_an_innocent_rank_or_silence_is_wrong(code: str, culprits: tuple[int, ...], size: int, wrong: int) -> None:
    table = Confusion()
    table.add("killed", "raw", 1, size, code, culprits)
    assert len(table.wrong) == wrong
    assert str(table).endswith(f"{1 - wrong} of 1 right")


def test_a_note_on_a_right_program_is_wrong() -> None:
    script = Script(ranks=2)
    with script.world() as world:
        said = healthy(lambda size: world, [2], 2 * len(PROGRAMS))
        assert (said.cells, said.wrong) == (2 * len(PROGRAMS), [])
        facts = {"given": "x.clone()", "origin": "x"}
        script.on("cell", ok(findings=(Finding("thrown-away", "all_reduce", "cell 9, line 2", facts=facts),)))
        assert said_of(world, "...") == "note, cell 9, line 2: the result of all_reduce is thrown away"
        script.on("cell", {1: raises("ValueError: no data")})
        assert "ValueError: no data" in said_of(world, "...")
