"""What a rank's card says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from labkit.driver import cards
from labkit.driver.cards import describe, make_card
from labkit.driver.feed import Seat
from labkit.processes import ScriptedPid
from labkit.vocabulary import RankState
from labkit.wire import Call, CallSite, CodeError, Frame, RankView

SITE = CallSite("cell 3", 2)


def waiting(**known: object) -> Call:
    return Call(5, 5, "all_reduce", site=SITE, issued_s=100.0, **known)


CASES = {
    "idle": (RankView(0), ("idle", "", "")),
    "idle after an error": (
        RankView(0, error=CodeError("ValueError", "no")), ("cut off", "", "ValueError; another rank is the cause"),
    ),
    "dead": (RankView(0, process="dead", exit_code=-9, activity="cell", calls=(waiting(),)), ("dead", "", "exit code -9")),
    "stopped": (
        RankView(0, process="stopped", activity="call", calls=(waiting(),)), ("stopped", "", "SIGSTOP, in all_reduce #5"),
    ),
    "in a call": (RankView(0, activity="call", calls=(waiting(),)), ("waiting", "in all_reduce #5", "cell 3, line 2, for 1.5 s")),
    "in a call of a library": (
        RankView(0, activity="call", calls=(Call(1, 0, "send", issued_s=101.5),)), ("waiting", "in send", "for 0.0 s"),
    ),
    "running": (
        RankView(0, activity="cell", cell=3, stack=(Frame("cell 3", 7, "f"), Frame("x.py", 1, "g"))),
        ("running", "running cell 3", "cell 3, line 7"),
    ),
    "running, no line known": (RankView(0, activity="cell", cell=3), ("running", "running cell 3", "")),
    "an asynchronous call is no wait": (
        RankView(0, activity="cell", cell=3, calls=(waiting(async_op=True),)),
        ("running", "running cell 3", "past all_reduce #5, line 2"),
    ),
    "holds the lock": (
        RankView(0, activity="cell", cell=3, answers=False), ("running", "running cell 3", "holds the interpreter lock"),
    ),
    "a call left behind by a cell that ended": (RankView(0, activity="idle", calls=(waiting(),)), ("idle", "", "")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_state_in_a_short_phrase(name: str, monkeypatch) -> None:
    monkeypatch.setattr(cards, "time", SimpleNamespace(monotonic=lambda: 101.5))
    view, phrase = CASES[name]
    assert describe(view) == phrase


def test_a_rank_that_raised_is_not_fine_until_it_runs_again() -> None:
    error = CodeError("KeyError", "'y'", SITE)
    assert describe(RankView(0, error=error), raised=error) == ("raised", "raised KeyError", "'y' (cell 3, line 2)")
    assert describe(RankView(0, activity="cell", cell=4), raised=error).state == "running"
    assert describe(RankView(0, process="dead"), raised=error).state == "dead"


def test_nobody_can_know_what_a_rank_does_that_can_not_be_reached() -> None:
    assert make_card(RankView(0), Seat(0, ScriptedPid(1)), "gloo", reachable=False).state == "unreachable"
    assert make_card(RankView(0, process="dead"), Seat(0, ScriptedPid(1)), "gloo", reachable=False).state == "dead"


def test_a_call_of_broken_groups_is_stuck() -> None:
    view = RankView(0, activity="call", calls=(waiting(),))
    assert describe(view, broken=True)[:2] == (RankState.STUCK, "stuck in all_reduce #5")


def test_a_card_has_identity_and_place() -> None:
    card = make_card(RankView(2, pid=ScriptedPid(77)), Seat(2, device="cuda:0"), "nccl")
    assert (card.rank, card.pid, card.device, card.backend, card.state, card.memory_bytes) == (2, 77, "cuda:0", "nccl", "idle", 0)
