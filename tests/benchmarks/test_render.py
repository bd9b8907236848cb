"""The table says what was found, in three forms, and hides nothing that is not met."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks import render
from benchmarks.core import Goal, Measure, Row, Series

ROWS = [
    Row("cold", Series.of("labkit", [1.0, 2.0, 3.0]), Series.of("torchrun", [4.0, 4.0, 4.0]), Goal(0.9), "the import"),
    Row("call", Series.of("labkit", [2e-3]), Series.of("plain", [1e-3]), Goal(1.05), notes=("a part of it",)),
    Row("rate", Series.of("labkit", [2.0**30], "bytes/s"), None, Goal(2.0**29, ratio=False, at_least=True)),
    Row("labs", skipped="there is no lab yet"),
    Row("other", failed="torchrun-3 ended; its last words: [boom]"),
]


def nothing(bench: object) -> list[Row]:
    """How it is taken."""
    return []


FINDINGS = [(Measure("start", "Start", nothing), ROWS)]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3e-5, "s", "30 µs"),
        (0.0123, "s", "12.3 ms"),
        (12.3, "s", "12.3 s"),
        (16 * 2.0**20, "bytes", "16 MiB"),
        (2.0**30, "bytes/s", "1 GiB/s"),
        (0.5, "", "0.5"),
    ],
)
def test_numbers_carry_their_unit(value: float, unit: str, text: str) -> None:
    assert render.number(value, unit) == text


def test_a_verdict_is_one_of_five() -> None:
    assert [render.verdict(row) for row in ROWS] == ["met", "NOT MET", "met", "skipped", "failed"]
    assert render.verdict(Row("x", Series.of("a", [1.0]))) == "no goal"


def test_ratios_and_goals_as_text() -> None:
    assert render.cells(ROWS[0])[1:5] == ("2 s (1 s to 3 s)", "torchrun: 4 s (4 s to 4 s)", "0.5x (0.25 to 0.75)", "≤ 0.9x")
    assert render.cells(ROWS[2])[1:5] == ("1 GiB/s", "-", "-", "≥ 512 MiB/s")


def test_the_page_lists_what_is_not_met() -> None:
    page = render.markdown(FINDINGS, "2 cores", "Taken once.")
    missed = page.split("## Goals that are not met")[1].split("## What limits each")[0]
    assert missed.split() == "- Start: call - Start: other".split()
    assert "| cold | 2 s (1 s to 3 s) |" in page
    assert "- cold: limited by: the import" in page
    assert "  - a part of it" in page
    assert "How it is taken." in page
    assert "\n\n\n" not in page


def test_a_page_without_misses_says_so() -> None:
    page = render.markdown([(FINDINGS[0][0], ROWS[:1])], "2 cores", "")
    assert "## Goals that are not met\n\nNone." in page


def test_the_terminal_shows_every_row_and_its_remark() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(render.table(FINDINGS))
    console.print(*render.remarks(FINDINGS), sep="\n", markup=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(row.what in text for row in ROWS)
    assert "other: torchrun-3 ended; its last words: [boom]" in text


def test_the_document_holds_every_value() -> None:
    document = json.loads(render.document(FINDINGS, "2 cores", left_behind=[]))
    assert [row["verdict"] for row in document["rows"]] == ["met", "NOT MET", "met", "skipped", "failed"]
    assert document["rows"][0]["ours"]["values"] == [1.0, 2.0, 3.0]
    assert document["rows"][0]["ratio"] == 0.5
