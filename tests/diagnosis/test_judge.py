"""The judge itself: several verdicts, odd evidence, speed."""

from __future__ import annotations

import time
from dataclasses import replace

from labkit.diagnosis import align, judge
from labkit.diagnosis.source import comes_later, in_loop, unconditional
from labkit.wire import CallSite, CodeError, Evidence, RankView

from .build import world


def codes(evidence: Evidence) -> list[tuple[str, tuple[int, ...]]]:
    return [(verdict.code, verdict.culprits) for verdict in judge(evidence)]


def test_a_dead_rank_and_a_stopped_one_are_two_verdicts() -> None:
    assert codes(world("ar1", {1: "stop", 3: "die"}).run().evidence()) == [("LK001", (3,)), ("LK002", (1,))]


def test_two_dead_ranks_are_one_verdict() -> None:
    (verdict,) = judge(world("ar1", {1: "die", 3: "die"}).run().evidence())
    assert verdict.sentence == (
        "rank 1 died (killed by SIGKILL) and rank 3 died (killed by SIGKILL) while "
        "ranks 0 and 2 wait in all_reduce #1 (cell 7, line 1)."
    )


def test_wrong_numbers_come_after_what_stops_the_world() -> None:
    assert codes(world("ar1~max ar2", {0: "ar1 ar2", 3: "ar1~max die"}).run().evidence()) == [("LK001", (3,)), ("LK006", (0,))]


def test_a_chain_of_waits_leads_to_its_end() -> None:
    """0 and 3 wait for 1 and 2 in the world; 1 waits for 2 in a subgroup; 2 is busy."""
    seen = world("ar1", {1: "ar2%tp ar1", 2: "busy3"}, groups={"tp": (1, 2)}).run()
    assert codes(seen.evidence()) == [("LK010", (2,))]


def test_an_exception_that_chains_an_echo_is_an_echo() -> None:
    seen = world("ar1 ar2", {2: "ar1"}).run().cut()
    for rank in (0, 1, 3):
        seen.but(rank, error=CodeError("MyError", "step failed", None, "RuntimeError: Connection closed by peer\nMyError"))
    assert codes(seen.evidence()) == [("LK007", (2,))]


def test_a_call_that_failed_by_its_own_fault_is_not_a_wait() -> None:
    seen = world("ar1", {1: "ar1"}).run()
    for rank in (0, 2, 3):
        seen.calls[rank][-1] = replace(seen.calls[rank][-1], state="issued", returned_s=0.0)
        seen.but(rank, activity="call")
    seen.calls[1][-1] = replace(seen.calls[1][-1], state="failed")
    seen.but(1, error=CodeError("RuntimeError", "Invalid scalar type"))
    assert codes(seen.evidence()) == [("LK003", (1,))]


def test_what_fell_off_a_full_beacon_is_not_missing() -> None:
    script = "ar1 ar2 " * 140
    evidence = world("", {0: script, 1: script, 2: script[:-4]}, 3).run().evidence()
    evidence = replace(evidence, ranks=tuple(replace(v, calls=v.calls[-256:]) for v in evidence.ranks))
    assert codes(evidence) == [("LK007", (2,))]


def test_numbers_that_begin_anew_are_a_new_generation() -> None:
    evidence = world("ar1 ar2", {1: "ar1"}).run().cut().evidence()
    fresh = world("bar1", ranks=4, cell=8).run().evidence()
    views = tuple(
        replace(new, calls=old.calls + tuple(replace(call, index=call.index + 10) for call in new.calls))
        for old, new in zip(evidence.ranks, fresh.ranks, strict=True)
    )
    assert judge(replace(fresh, ranks=views)) == ()


def test_a_rank_nobody_has_seen_is_not_accused() -> None:
    evidence = world("ar1", {3: ""}).run().evidence()
    assert judge(replace(evidence, ranks=evidence.ranks[:3])) == ()


def test_the_source_tells_branches_loops_and_order() -> None:
    source = "%time\nf()\nfor i in range(3):\n    g()\n    h()\nif a:\n    f()\nelse:\n    g()\n"
    evidence = Evidence(2, sources={"1": source, "2": "def f(:"})

    def at(line: int) -> CallSite:
        return CallSite("cell 1", line)

    assert unconditional(evidence, at(2))
    assert not unconditional(evidence, at(7))
    assert in_loop(evidence, at(4))
    assert not in_loop(evidence, at(7))
    assert comes_later(evidence, at(5), at(4), at(2)) is True
    assert comes_later(evidence, at(5), at(4), at(4)) is False
    assert comes_later(evidence, at(7), at(9), None) is None
    assert comes_later(evidence, CallSite("cell 2", 1), CallSite("cell 2", 2), None) is None
    assert not unconditional(evidence, CallSite("train.py", 2))


def test_sixteen_ranks_are_judged_in_a_blink() -> None:
    script = "ar1 bc2 ar3 bar4 " * 64
    seen = world(script, {5: script + "ar9"}, 16)
    for rank in range(16):  # filled by hand: the miniature world is slower than the judge
        while seen.at[rank] < len(seen.programs[rank]):
            seen.issue(rank, "done")
    evidence = seen.evidence()
    evidence = replace(evidence, ranks=tuple(replace(v, calls=v.calls[-256:]) for v in evidence.ranks))
    judge(evidence)
    took_s = min(_timed(evidence) for _ in range(5))
    assert took_s < 0.05


def _timed(evidence: Evidence) -> float:
    start = time.process_time()  # of this process alone: the machine may be busy
    judge(evidence)
    return time.process_time() - start


def test_views_without_anything_are_no_verdict() -> None:
    assert judge(Evidence(2, ranks=(RankView(0, activity="cell", cell=1), RankView(1)), cell=1)) == ()
    assert align(Evidence(0)).waits == {}
