"""A learner's function held against its cases: what is taken for right, and what a refusal says."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from labkit.errors import YourTurn
from labkit.exercises import NotYet
from labkit.exercises._base import hold
from labkit.instruments.labnote import Lab

CASES = [(f"for {n}", (n,), 2.0 * n) for n in (1, 2, 300)]


def test_right_answers_are_counted() -> None:
    assert hold(lambda n: 2 * n, CASES, "double it") == 3
    assert hold(lambda n: 2 * n * (1 + 1e-9), iter(CASES), "double it") == 3
    assert hold(lambda n: 2 * n * 1.01, CASES, "double it", tolerance=0.02) == 3


@pytest.mark.parametrize("got", [5, None, True, [2]])
def test_the_first_wrong_case_is_named(got: object) -> None:
    with pytest.raises(NotYet) as caught:
        hold(lambda n: got, CASES, "double it")
    heard = "nothing (is there a return?)" if got is None else got
    assert (caught.value.what, caught.value.hint) == (f"for 1 you say {heard}, not 2", "double it")


def test_numbers_are_said_as_the_check_wants_them() -> None:
    with pytest.raises(NotYet, match="for 1 you say 0300 cm, the ruler says 0200 cm; measure it"):
        hold(lambda n: 3 * n, CASES, "measure it", said=lambda metres: f"{100 * metres:04.0f} cm", truth="the ruler says")


def test_numbers_that_read_alike_get_more_digits() -> None:
    with pytest.raises(NotYet, match=r"for 1 you say 2\.001, not 2;"):
        hold(lambda n: 2 * n + 0.001, CASES, "double it", said="{:.2g}".format)


def test_a_long_hint_is_broken_between_words() -> None:
    words = "stepper(trace(schedule_of(my_ring(4), 4), 1024)) " * 6
    lines = NotYet("not yet", hint=words.strip())._render_traceback_()
    assert max(map(len, lines)) <= 100
    assert " ".join(lines) == f"NotYet: not yet; {words.strip()}"


def test_an_open_exercise_stays_an_open_exercise() -> None:
    def open_still(n: int) -> int:
        raise YourTurn

    with pytest.raises(YourTurn):
        hold(open_still, CASES, "double it")


def test_an_error_in_a_learners_function_is_shown_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABKIT_RECORD", raising=False)
    cell: dict[str, Any] = {}
    exec(compile("def root_bytes(ranks, num_bytes):\n    return rank * num_bytes", "cell 7", "exec"), cell)
    lab = Lab("02-how-it-works", None)
    with pytest.raises(NameError) as caught:
        lab.check("02/root-bytes", cell["root_bytes"])
    assert [frame.name for frame in caught.traceback][1:] == ["root_bytes"]
    with pytest.raises(TypeError) as ours:
        lab.check("02/root-bytes", operator.concat)
    assert ours.traceback[-1].name == "hold", "nothing of the learner's in it: all of it is shown"
