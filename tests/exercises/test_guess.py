"""A prediction held against an answer: what is right, close or off, and that nothing a learner puts there breaks anything."""

from __future__ import annotations

import functools
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.exercises.guess import Answer, Found, compare, kept, no_guess
from labkit.labrecord import Told
from labkit.wire import dumps, loads

BYTES, STEPS, NONE = Answer(12288, "bytes"), Answer(6, "steps"), Answer(0, "lines")
TIME, KIB = Answer(14.2, "ms", noise=1.2), Answer(488.3, "KiB", noise=2.0)
PAIR = Answer((3.12, 0.524), "ms, GB/s", noise=1.3)
HANG, TREE = Answer("hang"), Answer("binomial-tree", also=("tree",))
NOWHERE = Answer("no size", source="they cross at", also=("never", 0, math.inf))
ANSWERS = (BYTES, STEPS, NONE, TIME, KIB, PAIR, HANG, TREE, NOWHERE, Answer(-2.5), Answer((3, 4), "rows, columns"))


@pytest.mark.parametrize(
    ("guess", "answer", "fit", "rest"),
    [
        # counts
        (12288, BYTES, "right", "12288: right."),
        ("12 KiB", BYTES, "right", "12 KiB: right."),
        ("12,288 bytes", BYTES, "right", "12,288 bytes: right."),
        (4096, BYTES, "off", "4096. It was 12288 bytes: too small by a factor of 3."),
        ("4 KiB", BYTES, "off", "4 KiB. It was 12288 bytes: too small by a factor of 3."),
        (24576, BYTES, "off", "24576. It was 12288 bytes: too large by a factor of 2."),
        (12000, BYTES, "close", "12000. It was 12288 bytes: close."),
        (5000, BYTES, "off", "5000. It was 12288 bytes: too small by a factor of 2.5."),
        (20000, BYTES, "off", "20000. It was 12288 bytes: too large by a factor of 1.6."),
        (1, BYTES, "off", "1. It was 12288 bytes: too small by a factor of more than a thousand."),
        ("3 ms", BYTES, "incomparable", "'3 ms'. It was 12288 bytes."),
        (6.0, STEPS, "right", "6: right."),
        ("~6 steps", STEPS, "right", "~6 steps: right."),
        (5, STEPS, "off", "5. It was 6 steps: too small by a factor of 1.2."),
        (7, STEPS, "off", "7. It was 6 steps: too large by a factor of 1.2."),
        (14, STEPS, "off", "14. It was 6 steps: too large by a factor of 2.3."),
        (2.5, STEPS, "off", "2.5. It was 6 steps: too small by a factor of 2.4."),
        ("12 KiB", STEPS, "incomparable", "'12 KiB'. It was 6 steps."),
        (0, NONE, "right", "0: right."),
        (2, NONE, "off", "2. It was 0 lines: too large."),
        (-3, STEPS, "off", "-3. It was 6 steps: too small."),
        (True, STEPS, "incomparable", "True. It was 6 steps."),
        (math.nan, STEPS, "incomparable", "nan. It was 6 steps."),
        (math.inf, STEPS, "off", "inf. It was 6 steps: too large."),
        (2 + 1j, STEPS, "incomparable", "'(2+1j)'. It was 6 steps."),
        pytest.param(10**5000, STEPS, "incomparable", "'about 10^5000'. It was 6 steps.", id="huge"),
        ("3 or 4", STEPS, "incomparable", "'3 or 4'. It was 6 steps."),
        (np.int64(6), STEPS, "right", "6: right."),
        (np.float32(5), STEPS, "off", "5. It was 6 steps: too small by a factor of 1.2."),
        (np.array(6), STEPS, "right", "6: right."),
        (Fraction(12, 2), STEPS, "right", "6: right."),
        (Decimal(6), STEPS, "right", "6: right."),
        ([6], STEPS, "right", "6: right."),
        ([4, 6], STEPS, "close", "4, 6. It was 6 steps, one of them."),
        ([4, 5], STEPS, "incomparable", "4, 5. It was 6 steps."),
        ("a lot", STEPS, "incomparable", "'a lot'. It was 6 steps."),
        # measured
        (14, TIME, "right", "14. Measured: 14.2 ms. Right, within the noise."),
        (10, TIME, "close", "10. Measured: 14.2 ms. Close, within a factor of 1.5."),
        (25, TIME, "close", "25. Measured: 14.2 ms. Close, within a factor of 2."),
        (100, TIME, "off", "100. Measured: 14.2 ms. Too large by a factor of 7."),
        (1, TIME, "off", "1. Measured: 14.2 ms. Too small by a factor of 14."),
        ("10,000 µs", TIME, "close", "10,000 µs. Measured: 14.2 ms. Close, within a factor of 1.5."),
        (0, TIME, "off", "0. Measured: 14.2 ms. Too small."),
        (500, KIB, "right", "500. Measured: 488 KiB. Right, within the noise."),
        ("1.5 MiB", KIB, "close", "1.5 MiB. Measured: 488 KiB. Close, within a factor of 4."),
        # pairs
        (
            (10, 0.1), PAIR, "off",
            "10, 0.1. Measured: 3.12 ms (too large by a factor of 3.2) and 0.524 GB/s (too small by a factor of 5.2).",
        ),
        (
            "5 ms, 0.5 GB/s", PAIR, "close",
            "5 ms, 0.5 GB/s. Measured: 3.12 ms (close, within a factor of 2) and 0.524 GB/s (right, within the noise).",
        ),
        (
            ["500 MB/s", "3 ms"], PAIR, "right",
            "'500 MB/s', '3 ms'. Measured: 3.12 ms (right, within the noise) and 0.524 GB/s (right, within the noise).",
        ),
        (3, PAIR, "incomparable", "3. Measured: 3.12 ms and 0.524 GB/s."),
        ({3, 4}, PAIR, "incomparable", "'{3, 4}'. Measured: 3.12 ms and 0.524 GB/s."),
        ((1, 2, 3), PAIR, "incomparable", "1, 2, 3. Measured: 3.12 ms and 0.524 GB/s."),
        # words
        ("hang", HANG, "right", "'hang': right."),
        (" Hang. ", HANG, "right", "'Hang.': right."),
        ("abort", HANG, "off", "'abort'. It was 'hang'."),
        (["hang", "abort"], HANG, "close", "'hang', 'abort'. It was 'hang', one of them."),
        (3, HANG, "off", "3. It was 'hang'."),
        ("ring", TREE, "off", "'ring'. It was 'binomial-tree'."),
        ("Binomial tree", TREE, "right", "'Binomial tree': right."),
        ("tree", TREE, "right", "'tree': right."),
        (500, NOWHERE, "off", "500. They cross at no size."),
        ("Never", NOWHERE, "right", "'Never': right."),
        (0, NOWHERE, "right", "0: right."),
    ],
)  # fmt: skip
def test_what_is_said(guess: Any, answer: Answer, fit: str, rest: str) -> None:
    told = compare(guess, answer)
    assert (told.fit, told.says) == (fit, f"You guessed {rest}")
    assert (told.answer, told.unit) == (answer.value, answer.unit)


def test_a_tensor_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    assert compare(torch.tensor(6.0), STEPS).fit == "right"
    assert compare(torch.ones(1, requires_grad=True), STEPS).says == "You guessed 1. It was 6 steps: too small by a factor of 6."
    assert compare(torch.tensor([3.0, 0.5]), PAIR).fit == "right"
    assert kept(torch.zeros(100)).startswith("tensor([0.")


def test_the_answer_of_a_fit_is_not_called_measured() -> None:
    assert ". The fit says 500 KiB. Close, within" in compare(1200, Answer(500.0, "KiB", noise=2.0, source="the fit says")).says


class Rude:
    def __repr__(self) -> str:
        raise KeyError("no")


odd = st.sampled_from([Rude(), {1}, {"a": [1]}, range(3), b"x", object(), np.arange(100), np.zeros((2, 2)), Decimal("sNaN")])
scalars = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(), st.complex_numbers(), st.fractions(), st.none(), odd,
    st.integers(10**300, 10**320), st.from_regex(r"[~]?\d{1,400}([,.]\d+)?(e\d{1,4})? ?(KiB|ms|GB/s|steps|%)?", fullmatch=True),
)  # fmt: skip
anything = st.one_of(
    scalars, st.lists(scalars, max_size=30), st.tuples(scalars, scalars), st.lists(st.lists(scalars), max_size=3)
)


@given(anything, st.sampled_from(ANSWERS))
def test_nothing_breaks_it_and_the_record_can_carry_it(guess: Any, answer: Answer) -> None:
    told = compare(guess, answer)
    assert told.fit in ("right", "close", "off", "incomparable")
    assert told.says.startswith("You guessed ")
    assert told.says.endswith(".")
    assert "!" not in told.says or "!" in str(kept(guess))
    assert "\n" not in told.says
    assert len(told.says) < 250
    assert loads(dumps(told)) == told
    assert dumps(loads(dumps(kept(guess)))) == dumps(kept(guess))
    assert compare(kept(guess), answer) == told, "what is kept says the same as what was given"
    json.loads(dumps(told))


numbers = st.floats(1e-6, 1e12, allow_subnormal=False)


@given(numbers, numbers, st.sampled_from([1.0, 1.2, 1.5, 2.0]))
def test_the_direction_is_the_guess_s(guess: float, value: float, noise: float) -> None:
    says = compare(guess, Answer(value, noise=noise)).says
    if "too large" in says:
        assert guess > value
    if "too small" in says:
        assert guess < value


@given(numbers, numbers, st.sampled_from([1.1, 1.2, 1.5, 2.0]))
def test_measured_values_go_by_the_factor_alone(guess: float, value: float, noise: float) -> None:
    one, other = compare(guess, Answer(value, noise=noise)), compare(value, Answer(guess, noise=noise))
    assert one.fit == other.fit, "as much too large is as bad as as much too small"
    factor = max(guess / value, value / guess)
    if not any(math.isclose(factor, edge) for edge in (noise, max(2.0, noise**2))):
        assert one.fit == ("right" if factor < noise else "close" if factor < max(2.0, noise**2) else "off")


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_counts_are_exact(guess: int, value: int) -> None:
    fit = compare(guess, Answer(value)).fit
    assert (fit == "right") == math.isclose(guess, value, rel_tol=1e-6)
    assert compare(value, Answer(value)).says == f"You guessed {value}: right."
    assert compare(f"{value:,} steps", Answer(value, "steps")).fit == "right"


@given(st.sampled_from(["bytes", "KiB", "MiB"]), st.integers(1, 1000))
def test_a_unit_is_as_good_as_the_one_that_was_asked_for(unit: str, number: int) -> None:
    size = number * {"bytes": 1, "KiB": 1024, "MiB": 1 << 20}[unit]
    assert compare(f"{number} {unit}", Answer(size, "bytes")).fit == "right"
    assert compare(f"{number}{unit}", Answer(size / 1024, "KiB", noise=1.2)).fit == "right"


@pytest.mark.parametrize(
    ("guess", "what"),
    [(None, "nothing"), (..., "nothing"), ("", "an empty text"), (" \n", "an empty text"), (len, "a function"),
     (lambda: 3, "a function"), ("x".join, "a function"), (int, "a class"), (Told, "a class"), (math, "a module")],
)  # fmt: skip
def test_what_is_no_guess(guess: Any, what: str) -> None:
    assert no_guess(guess) == what


@pytest.mark.parametrize("guess", [0, False, "0", [], (), {}, math.nan, np.zeros(3), Rude(), functools.partial(int)])
def test_anything_else_is_one(guess: Any) -> None:
    assert no_guess(guess) == ""


def test_a_long_guess_is_cut() -> None:
    says = compare("ring " * 1000, HANG).says
    assert len(says) < 100
    assert says.endswith("...'. It was 'hang'.")
    assert len(kept("x" * 10_000)) == 200
    assert kept(list(range(100))).startswith("[0, 1, 2")


def test_found_is_the_sentence_and_more() -> None:
    found = Found("6 steps.", STEPS)
    assert found == "6 steps."
    assert type(str(found)) is str
    assert found.answer is STEPS
