"""A schedule's moves, laid side by side by hand: what is found, and that nothing is found where nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.diagnosis import align, judge
from labkit.diagnosis.alignment import altered, newest_run, slip
from labkit.diagnosis.rules.lk011_straggler import late
from labkit.wire import Call, CodeError, Evidence, RankView

RANKS = 3


def ring(rank: int, *, request_id: int = 7, at_s: float = 100.0, cell: int = 2) -> list[Call]:
    """The lines of a rank's four moves of a ring on three ranks, a millisecond each."""
    return [
        Call(
            request_id * 100 + step, 0, "recv", group_ranks=(0, 1, 2), shape=(100,), dtype="float32", num_bytes=400,
            reduce_op="sum" if step < 2 else "", root=(rank - 1) % RANKS, cell=cell, state="done",
            issued_s=at_s + step * 1e-3, returned_s=at_s + (step + 1) * 1e-3, algorithm="ring", step=step,
            move=step + 1, request_id=request_id,
        )
        for step in range(4)
    ]  # fmt: skip


def world(lines: list[list[Call]], *, activity: str = "idle", cell: int = 2, **changes: dict[int, object]) -> Evidence:
    """Evidence of ranks with these lines, two seconds later; `changes` are of single ranks: r1={"process": "dead"}."""
    views = [
        RankView(rank, pid=rank + 1, activity="call" if any(c.state == "issued" for c in line) else activity, cell=cell,
                 calls=tuple(line), generation=1, **changes.get(f"r{rank}", {}))
        for rank, line in enumerate(lines)
    ]  # fmt: skip
    return Evidence(len(lines), cell=cell, targets=tuple(range(len(lines))), taken_s=103.0, ranks=tuple(views))


def healthy() -> list[list[Call]]:
    return [ring(rank) for rank in range(RANKS)]


def codes(evidence: Evidence) -> list[str]:
    return [verdict.code for verdict in judge(evidence)]


# ---- nothing is wrong
def test_a_run_that_ended_well() -> None:
    found = align(world(healthy()))
    assert (found.algorithm, [len(line) for line in found.calls.values()]) == ("ring", [4, 4, 4])
    assert (slip(found.calls), altered(found.calls), late(found.calls)) == (None, None, None)
    assert codes(world(healthy())) == []


def test_the_same_program_again_is_no_move_made_twice() -> None:
    one_move = [[ring(r)[0], replace(ring(r, request_id=8, at_s=101.0)[0], index=900)] for r in range(RANKS)]
    assert codes(world(one_move)) == []
    assert {c.request_id for line in align(world(one_move)).calls.values() for c in line} == {8}


def test_a_request_that_repeats_its_program_says_no_turn_and_is_not_looked_at() -> None:
    lines = [[replace(c, request_id=0, index=i * 9 + c.index) for i in range(3) for c in ring(r)] for r in range(RANKS)]
    assert align(world(lines)).algorithm == ""
    assert codes(world(lines)) == []


def test_overlapped_the_halves_of_a_move_have_lines_of_their_own() -> None:
    lines = [[*ring(r), replace(ring(r)[-1], index=999, op="send", root=(r + 1) % RANKS)] for r in range(RANKS)]
    assert codes(world(lines)) == []


def test_what_the_beacon_has_forgotten_is_not_missed() -> None:
    assert codes(world([line[2:] if rank == 1 else line for rank, line in enumerate(healthy())])) == []


def test_calls_of_a_later_cell_end_the_schedule() -> None:
    later = [Call(999, 1, "all_reduce", group_ranks=(0, 1, 2), cell=3, state="done", issued_s=101.0, returned_s=101.1)]
    slow = healthy()
    slow[1] = [replace(c, issued_s=c.issued_s + 1, returned_s=c.returned_s + 1) for c in slow[1]]
    assert codes(world(slow)) == ["LK011"]
    assert codes(world([line + later for line in slow], cell=3)) == []
    assert codes(world(slow, cell=3)) == []  # a cell without a call
    assert newest_run(Evidence(1), {0: ()}) == ("", {})


# ---- something is
def begun(line: list[Call], at: int) -> list[Call]:
    return [*line[: at - 1], replace(line[at - 1], state="begun", returned_s=0.0)]


def waiting(line: list[Call], at: int) -> list[Call]:
    return [*line[: at - 1], replace(line[at - 1], state="issued", returned_s=0.0)]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (
            {"process": "dead", "exit_code": -9},
            "LK001",
            "rank 1 died (killed by SIGKILL) in step 1 of ring; rank 2 waits for its",
        ),
        ({"process": "stopped"}, "LK002", "rank 1 is stopped (SIGSTOP) in step 1 of ring; rank 2 waits for its message"),
        ({"activity": "cell"}, "LK010", "rank 1 is busy in Python in step 1 of ring; rank 2 waits for its message"),
        ({}, "LK007", "rank 1 left the schedule in step 1 of ring; rank 2 waits for its message in step 1, and rank 0"),
    ],
)
def test_a_rank_that_does_not_make_its_move(change: dict[str, object], code: str, says: str) -> None:
    lines = [waiting(ring(0), 3), begun(ring(1), 2), waiting(ring(2), 2)]
    evidence = world(lines)
    views = [replace(view, **change) if view.rank == 1 else view for view in evidence.ranks]
    verdict = judge(replace(evidence, ranks=tuple(views)))[0]
    assert (verdict.code, verdict.culprits, verdict.waiting) == (code, (1,), (0, 2))
    assert verdict.sentence.startswith(says)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"activity": "cell"}, "LK010", "rank 1 is busy in Python in step 3 of ring; rank 0 waits."),
        ({"error": CodeError("PlannedFault", "")}, "LK003", "rank 1 raised PlannedFault in step 3 of ring; rank 0 waits."),
        ({}, "LK007", "rank 1 left the schedule in step 3 of ring; rank 0 waits."),
    ],
)
def test_a_rank_that_has_made_all_its_moves_is_nobodys_culprit(change: dict[str, object], code: str, says: str) -> None:
    lines = [waiting(ring(0), 4), begun(ring(1), 4), ring(2)]  # rank 0 has its message of rank 2, and sends to rank 1
    evidence = world(lines)
    rank_1 = replace(evidence.ranks[1], **change)
    (verdict,) = judge(replace(evidence, ranks=(evidence.ranks[0], rank_1, evidence.ranks[2])))
    assert (verdict.code, verdict.culprits, verdict.sentence) == (code, (1,), says)
    nobody_waits = replace(evidence, ranks=(world(healthy()).ranks[0], rank_1, evidence.ranks[2]))
    (verdict,) = judge(nobody_waits)
    assert (verdict.code, verdict.culprits, verdict.sentence) == (code, (1,), says.replace("; rank 0 waits", ""))


def test_messages_that_take_their_time_are_no_hang() -> None:
    lines = [waiting(ring(rank), 2) for rank in range(RANKS)]
    assert codes(world(lines)) == []
    assert codes(world([ring(0), *lines[1:]])) == []
    assert codes(world([[replace(c, request_id=0) for c in line] for line in lines])) == []  # of a comparison


def test_a_rank_that_died_between_two_moves() -> None:
    evidence = world([waiting(ring(0), 3), ring(1)[:1], waiting(ring(2), 2)])
    dead = replace(evidence.ranks[1], process="dead", exit_code=-9)
    assert (
        "died (killed by SIGKILL) after step 0 of ring"
        in judge(replace(evidence, ranks=(evidence.ranks[0], dead, evidence.ranks[2])))[0].sentence
    )
    early = replace(dead, calls=())
    assert (
        "before its first step of ring"
        in judge(replace(evidence, ranks=(evidence.ranks[0], early, evidence.ranks[2])))[0].sentence
    )


def test_a_move_left_out_or_made_twice_is_named_whatever_it_leads_to() -> None:
    skipped = [*begun(ring(1), 2), *ring(1)[2:]]
    twice = [*ring(1)[:2], replace(ring(1)[1], index=777), *waiting(ring(1), 3)[2:]]
    for line, kind, says in (
        (skipped, "skip", "skipped its part of step 1"),
        (twice, "twice", "made its part of step 1 of ring twice"),
    ):
        for others in ([ring(0), waiting(ring(2), 4)], [ring(0), ring(2)]):
            evidence = world([others[0], line, others[1]])
            found = slip(align(evidence).calls)
            assert (found.rank, found.kind, found.call.step) == (1, kind, 1)
            (verdict,) = judge(evidence)
            assert (verdict.code, verdict.culprits) == ("LK009", (1,))
            assert says in verdict.sentence
    evidence = world([ring(0), skipped, waiting(ring(2), 4)])
    aborted = replace(evidence.ranks[0], process="dead", exit_code=-6)
    (verdict,) = judge(replace(evidence, ranks=(aborted, *evidence.ranks[1:])))
    assert (verdict.code, verdict.ending) == ("LK009", "abort")
    assert "rank 0 died of it" in verdict.sentence
    killed = replace(aborted, exit_code=-9)
    assert {v.code for v in judge(replace(evidence, ranks=(killed, *evidence.ranks[1:])))} == {"LK001", "LK009"}


def test_an_op_of_ones_own() -> None:
    for size in (2, 3):  # on two ranks it is one against one: its program says who is right
        lines = healthy()[:size]
        lines[1][1] = replace(lines[1][1], reduce_op="max", planned="100 float32 sum")
        (verdict,) = judge(world(lines))
        assert (verdict.code, verdict.culprits, verdict.ending) == ("LK006", (1,), "silent")
        assert verdict.sentence == "rank 1 reduces with max in step 1 of ring, where its program says sum: the results are wrong."
        assert [(side.ranks, side.did) for side in verdict.sides] == [
            (tuple(rank for rank in range(size) if rank != 1), "reduced with sum"), ((1,), "reduced with max"),
        ]  # fmt: skip


def test_a_message_of_another_size() -> None:
    lines = healthy()
    sends = [replace(c, op="send", root=1, reduce_op="") for c in lines[0]]
    lines[0] = [sends[0], replace(sends[1], shape=(50,), planned="100 float32"), *sends[2:]]
    (verdict,) = judge(world(lines))
    assert (verdict.code, verdict.culprits, verdict.ending) == ("LK005", (0,), "silent")
    assert verdict.sentence == (
        "rank 0 sent 50 elements of float32 to rank 1 in step 1 of ring, where its program says 100: "
        "no rank gets an error, and the sums are wrong."
    )
    assert [(side.ranks, side.did) for side in verdict.sides] == [
        ((0,), "sent 50 elements of float32"), ((1,), "expected 100 elements of float32"),
    ]  # fmt: skip


def test_room_for_another_dtype_that_its_process_died_of() -> None:
    lines = [waiting(ring(0), 3), waiting(ring(1), 2), waiting(ring(2), 2)]
    lines[1][1] = replace(lines[1][1], dtype="float16", planned="100 float32 sum")
    evidence = world(lines)
    dead = replace(evidence.ranks[1], process="dead", exit_code=-6)
    verdict = judge(replace(evidence, ranks=(evidence.ranks[0], dead, evidence.ranks[2])))[0]
    assert (verdict.code, verdict.culprits, verdict.ending) == ("LK005", (1,), "abort")
    assert verdict.sentence.startswith(
        "rank 1 expected 100 elements of float16 from rank 0 in step 1 of ring, where its program says float32; "
        "rank 1 died of it; rank 2 waits"
    )


def test_only_a_pause_of_ones_own_is_late() -> None:
    lines = healthy()
    for rank in (0, 2):  # they wait inside of their moves
        lines[rank][2:] = [replace(c, returned_s=c.returned_s + 1, issued_s=c.issued_s + (c.step == 3)) for c in lines[rank][2:]]
    lines[1][2:] = [replace(c, issued_s=c.issued_s + 1, returned_s=c.returned_s + 1) for c in lines[1][2:]]
    (verdict,) = judge(world(lines))
    assert (verdict.code, verdict.culprits) == ("LK011", (1,))
    assert verdict.sentence.startswith("rank 1 began step 2 of ring 1.00 s late")
