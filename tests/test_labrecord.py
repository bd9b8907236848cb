"""The lab record: counts each call once, outlives recoveries, and says what is missing."""

from __future__ import annotations

import dataclasses

import pytest

from labkit.labrecord import LabRecord, Ledger, OpSeen, Told, shortcomings
from labkit.wire import Call, CellResult, Diagnosis, Evidence, Injection, Outcome, RankView, RecoveryReport, Verdict, dumps, loads

FAULT = Injection("swapped-order", 1, "swapped", fired=1, expected=("LK004",), ending="hang", verdict="LK004")
GOOD = LabRecord(
    "01-ring",
    finished=True,
    world_size=2,
    pids={"0": (11,), "1": (12,)},
    collectives=(OpSeen("all_reduce", 4, (0, 1)),),
    faults=(FAULT,),
    recoveries=(RecoveryReport("soft", 2),),
    verdicts={"3": "LK004"},
)


def look(*counts: int, generation: int = 1, cell: int = 1, first_pid: int = 100) -> Evidence:
    """A look at ranks that have made so many all-reduces."""
    views = tuple(
        RankView(
            rank,
            pid=first_pid + rank,
            cell=cell,
            generation=generation,
            calls=tuple(Call(index, index, "all_reduce") for index in range(1, count + 1)),
        )
        for rank, count in enumerate(counts)
    )
    return Evidence(len(counts), ranks=views)


def test_a_call_counts_once_however_often_it_is_looked_at() -> None:
    ledger = Ledger("01-ring")
    for counts in ((1, 1), (1, 1), (3, 2)):
        ledger.saw(look(*counts))
    assert ledger.record(elapsed_s=1.0).seen("all_reduce") == OpSeen("all_reduce", 5, (0, 1))


def test_a_new_generation_counts_from_the_start() -> None:
    ledger = Ledger("01-ring")
    ledger.saw(look(2, 2))
    ledger.saw(look(1, 1, generation=2, first_pid=200))
    record = ledger.record(elapsed_s=1.0)
    assert record.seen("all_reduce").num_calls == 6
    assert record.generations == (1, 2)
    assert record.pids == {"0": (100, 200), "1": (101, 201)}


def test_a_process_that_has_run_no_cell_is_no_rank_yet() -> None:
    ledger = Ledger("01-ring")
    ledger.saw(look(0, 0, cell=0))
    assert ledger.record(elapsed_s=1.0).num_processes == 0


def test_faults_outlive_the_recovery_that_clears_them() -> None:
    ledger = Ledger("01-ring")
    ledger.faults([FAULT])
    ledger.recovered(RecoveryReport("none", 1))
    ledger.faults([FAULT])
    ledger.recovered(RecoveryReport("soft", 2))
    ledger.faults([])
    assert ledger.record(elapsed_s=1.0).faults == (FAULT,)


def test_the_last_try_of_a_check_counts_and_tries_are_counted() -> None:
    ledger = Ledger("01-ring", wanted=["01/sum", "01/other"])
    ledger.checked("01/sum", False, "no")
    ledger.checked("01/sum", True, "yes")
    record = ledger.record(elapsed_s=1.0)
    assert [(check.passed, check.num_tries) for check in record.checks] == [(True, 2)]
    assert record.open_checks == ("01/other",)


def test_a_pass_after_a_pass_is_no_further_try() -> None:
    ledger = Ledger("01-ring")
    seen = [ledger.checked("01/sum", passed, "") for passed in (False, True, True, False, True)]
    assert [(each.num_tries, each.again) for each in seen] == [(1, False), (2, False), (2, True), (3, False), (4, False)]


def test_a_kernel_that_has_checked_nothing_says_what_is_counted() -> None:
    ledger = Ledger("01-ring", wanted=["01/sum"])
    counts = "Only what this kernel has run is counted"
    assert counts in repr(ledger.record(elapsed_s=1.0))
    ledger.checked("01/sum", False, "no")
    assert counts not in repr(ledger.record(elapsed_s=1.0))


def test_cells_are_counted_with_their_verdicts() -> None:
    ledger = Ledger("01-ring")
    verdict = Verdict("LK004", "order-mismatch", "order", "rank 1 ...")
    ledger.cell(CellResult(1, (Outcome(0),), elapsed_s=0.5))
    ledger.cell(CellResult(2, (Outcome(0),), Diagnosis((verdict,), Evidence(1)), elapsed_s=0.5))
    record = ledger.record(elapsed_s=3.0)
    assert (record.num_cells, record.verdicts, record.timings["cells_s"]) == (2, {"2": "LK004"}, 1.0)


def test_a_record_reads_back() -> None:
    ledger = Ledger("01-ring", versions={"python": "3.11"})
    ledger.world(backend="gloo", mode="raw", launcher="fork", world_size=2, folder="w", started_in_s=1.0)
    ledger.guessed("01/sum", 77)
    ledger.guessed("01/pair", (3, 0.5))
    ledger.told("01/pair", Told((3, 0.4), "ms, GB/s", "close", "You said 3, 0.5; ..."))
    ledger.checked("01/pair", True, "3 ms", "You said 3, 0.5; ...")
    ledger.saw(look(1, 1))
    record = ledger.record(elapsed_s=1.0)
    assert loads(dumps(record)) == record
    assert record.predictions == {"close": ("01/pair",), "not looked at": ("01/sum",)}


def test_a_record_of_before_predictions_were_held_against_answers_reads_back() -> None:
    old = '{"$": "LabRecord", "lab": "01-ring", "guesses": [{"$": "Guess", "name": "01/sum", "guess": 77}], "checks": []}'
    assert loads(old).predictions == {"not looked at": ("01/sum",)}


def test_a_whole_run_has_no_shortcomings() -> None:
    assert shortcomings(GOOD, ["swapped-order"]) == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"finished": False}, "it was not finished"),
        ({"pids": {"0": (11,), "1": (11,)}}, "2 ranks ran in 1 process"),
        ({"pids": {}}, "2 ranks ran in 0 processes"),
        ({"collectives": (OpSeen("all_reduce", 4, (0,)),)}, "rank 1 made no call"),
        ({"open_checks": ("01/sum",)}, "check 01/sum was never made"),
        ({"faults": (), "verdicts": {}}, "fault swapped-order did not fire"),
        ({"faults": (dataclasses.replace(FAULT, fired=0),)}, "fault swapped-order did not fire"),
        ({"faults": (dataclasses.replace(FAULT, verdict="LK009"),)}, "swapped-order was named LK009, not LK004"),
        ({"faults": (dataclasses.replace(FAULT, verdict=""),)}, "swapped-order was named by no verdict, not LK004"),
        ({"verdicts": {"9": "LK010"}}, "cell 9 got LK010 without a cause"),
        ({"recoveries": ()}, "the world was not recovered"),
        ({"recoveries": (RecoveryReport("none", 1),)}, "the world was not recovered"),
    ],
)
def test_each_shortcoming_is_named(change: dict[str, object], sentence: str) -> None:
    assert shortcomings(dataclasses.replace(GOOD, **change), ["swapped-order"]) == (sentence,)


def test_a_failed_check_is_a_shortcoming() -> None:
    ledger = Ledger("01-ring", wanted=["01/sum"])
    ledger.checked("01/sum", False, "rank 2 is missing")
    checked = ledger.record(elapsed_s=1.0)
    record = dataclasses.replace(GOOD, checks=checked.checks, open_checks=checked.open_checks)
    assert shortcomings(record) == ("check 01/sum failed: rank 2 is missing",)


def test_a_record_draws_itself_in_a_few_lines() -> None:
    assert repr(GOOD).splitlines() == [
        "01-ring: 0 of 0 checks passed",
        "  what ran: 2 processes, 4 calls, 0 rank cells",
        "  fault: swapped-order on rank 1 fired, named LK004",
        "  recovered: in 0 µs",
    ]
