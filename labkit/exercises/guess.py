"""A prediction held against what was found: whether it was right, close or off, and a line that says how it did.

A wrong guess is welcome: the line says what it was and by how much it differs, and neither blames nor cheers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..labrecord import Told
from ..units import is_number
from ._kept import cut, kept, no_guess
from ._quantity import read_each, read_one

__all__ = ["Answer", "Found", "compare", "kept", "no_guess", "said"]

_PARTS = dict(
    zip(range(2, 11), "half,a third,a quarter,a fifth,a sixth,a seventh,an eighth,a ninth,a tenth".split(","), strict=True)
)
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times", 8: "eight times", 10: "ten times"}
_FEW = 10  # of a count: up to here a difference says more than a ratio
_CLOSE = 1.1  # factor, of a count
_STEPS = (1.2, 1.5, 2.0, 3.0, 4.0, 5.0)  # as one says it: within a factor of 1.5
_ORDER = ("right", "close", "off", "apart")
Remark = tuple[str, str]  # how it was, and that in words; the words may be empty


@dataclass(frozen=True)
class Answer:
    """What a check has found: a number, a word, or several numbers.

    `unit` is the one that the question asks in; of several numbers one each, as in "ms, GB/s". `noise` is the factor by
    which two honest measurements may differ; 1 is a count, and exact. `also` are other ways to say the same. `source` stands
    before the answer, if not "it was", or "measured" where there is noise.
    """

    value: float | str | tuple[float, ...]
    unit: str = ""
    noise: float = 1.0
    also: tuple[Any, ...] = ()
    source: str = ""

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each of several numbers."""
        return tuple(name.strip() for name in self.unit.split(","))


class Found(str):
    """What a check says of a right answer, with the answer that a prediction is held against.

    >>> found = Found("6 steps on 8 ranks.", Answer(6, "steps"))
    >>> found, compare(14, found.answer).says
    ('6 steps on 8 ranks.', 'You said 14; it was 6 steps, 8 less.')
    """

    answer: Answer

    def __new__(cls, says: str, answer: Answer) -> Found:
        made = super().__new__(cls, says)
        made.answer = answer
        return made


def compare(guess: Any, answer: Answer) -> Told:
    """Hold a guess against the answer. Takes whatever `lab.predict` takes.

    >>> compare(4096, Answer(12288, "bytes")).says
    'You said 4096; that is a third of it.'
    >>> compare(10, Answer(14.2, "ms", noise=1.2)).says
    'You said 10; measured 14.2 ms: within a factor of 1.5, close.'
    """
    plain = kept(guess)
    fit, rest = _held(plain, answer)
    return Told(answer.value, answer.unit, fit, f"You said {said(plain, answer)}{rest}")


def said(guess: Any, answer: Answer | None = None) -> str:
    """A guess as it is cited: words stand in quotes, quantities do not.

    >>> said("ring"), said("3 ms, 0.5 GB/s", Answer((3.0, 0.5), "ms, GB/s")), said((10, 0.1)), said(2.0)
    ("'ring'", '3 ms, 0.5 GB/s', '10, 0.1', '2')
    """
    if isinstance(guess, (list, tuple)):
        return cut(", ".join(said(item) for item in guess)) or "nothing"
    if isinstance(guess, str):
        return cut(guess) if answer is not None and _is_quantity(guess, answer) else repr(cut(guess))
    return f"{guess:.10g}" if isinstance(guess, float) else cut(str(guess))


def _is_quantity(guess: str, answer: Answer) -> bool:
    if isinstance(answer.value, str):
        return False
    return (
        _several_of(guess, answer) is not None if isinstance(answer.value, tuple) else _number_of(guess, answer.unit) is not None
    )


# ---- one guess, by the kind of the answer: how it was, and the sentence from there on
def _held(guess: Any, answer: Answer) -> Remark:
    if isinstance(answer.value, tuple):
        return _held_several(guess, answer, answer.value)
    if isinstance(guess, (list, tuple)):
        return _held_list(guess, answer)
    if isinstance(answer.value, str):
        return _held_word(guess, answer, answer.value)
    number = _number_of(guess, answer.unit)
    return _held_number(number, answer, answer.value) if number is not None else ("apart", f"; {_truth(answer)}.")


def _held_number(number: float, answer: Answer, value: float) -> Remark:
    if answer.noise > 1:
        fit, words = _measured(number, value, answer.noise)
        return fit, f"; {_truth(answer)}: {words}."
    fit, words = _counted(number, value)
    if fit == "right":
        return fit, ": right."
    return fit, _ratio(number, value) or f"; {_truth(answer)}{_difference(number, value) or f': {words}'}."


def _held_word(guess: Any, answer: Answer, value: str) -> Remark:
    if any(_same(guess, other) for other in (value, *answer.also)):
        return "right", ": right."
    comparable = isinstance(guess, str) or is_number(guess)
    return ("off" if comparable else "apart"), f"; {_truth(answer)}."


def _held_list(guess: Sequence[Any], answer: Answer) -> Remark:
    """Several guesses where one was asked for: it may be among them."""
    if len(guess) == 1:
        return _held(guess[0], answer)
    among = any(_held(item, answer)[0] == "right" for item in guess)
    return ("close", f"; {_truth(answer)}, one of them.") if among else ("apart", f"; {_truth(answer)}.")


def _held_several(guess: Any, answer: Answer, values: tuple[float, ...]) -> Remark:
    numbers = _several_of(guess, answer)
    if numbers is None:
        return "apart", f"; {_truth(answer)}."
    pairs = zip(numbers, values, strict=True)
    held = [_measured(*pair, answer.noise) if answer.noise > 1 else _counted(*pair) for pair in pairs]
    return max((fit for fit, _ in held), key=_ORDER.index), f"; {_truth(answer, [words for _, words in held])}."


# ---- two numbers
def _counted(number: float, value: float) -> Remark:
    if math.isclose(number, value, rel_tol=1e-6):
        return "right", "right"
    factor = _factor(number, value)
    return ("close", "close") if factor is not None and factor <= _CLOSE else ("off", _direction(number, value, factor))


def _measured(number: float, value: float, noise: float) -> Remark:
    factor = _factor(number, value)
    if number == value or (factor is not None and factor <= noise):
        return "right", "right, within the noise"
    if factor is None or factor > max(2.0, noise**2):
        return "off", _direction(number, value, factor)
    step = next((step for step in _STEPS if factor <= step), math.ceil(factor))
    return "close", f"within a factor of {step:g}, close"


def _factor(number: float, value: float) -> float | None:
    """By what factor two numbers differ; None if one is not positive, or has no end."""
    if not (0 < number < math.inf and 0 < value < math.inf):
        return None
    return math.exp(min(abs(math.log(number) - math.log(value)), 700))  # beyond, exp has no float


def _direction(number: float, value: float, factor: float | None) -> str:
    way = "too large" if number > value else "too small"
    if factor is None:
        return way
    size = f"{factor:.2g}" if factor < 99.5 else f"{factor:.0f}" if factor < 999.5 else "more than a thousand"
    return f"{way} by a factor of {size}"


def _difference(number: float, value: float) -> str:
    """Of small counts: "one more", "8 less"."""
    if not (0 <= value <= _FEW and 0 <= number <= 100 and number == int(number) and value == int(value)):
        return ""
    apart = abs(int(value) - int(number))
    return f", {'one' if apart == 1 else apart} {'more' if value > number else 'less'}"


def _ratio(number: float, value: float) -> str:
    """Of larger counts: "a third of it", "twice as much"."""
    if value <= _FEW:
        return ""
    part = next((name for times, name in _PARTS.items() if math.isclose(number * times, value, rel_tol=1e-6)), "")
    more = next((name for times, name in _TIMES.items() if math.isclose(number, value * times, rel_tol=1e-6)), "")
    return f"; that is {part} of it." if part else f"; that is {more} as much." if more else ""


# ---- reading and writing
def _number_of(guess: Any, unit: str) -> float | None:
    """A guess as a number in that unit; None if it is none."""
    number: Any = read_one(guess, unit) if isinstance(guess, str) else guess
    return number if is_number(number) and not math.isnan(number) else None


def _several_of(guess: Any, answer: Answer) -> tuple[float, ...] | None:
    """A guess as numbers in the answer's units; None if it is not as many."""
    if isinstance(guess, str):
        return read_each(guess, answer.units)
    if not isinstance(guess, (list, tuple)) or len(guess) != len(answer.units):
        return None
    if all(isinstance(item, str) for item in guess):
        return read_each(", ".join(guess), answer.units)
    numbers = [_number_of(item, unit) for item, unit in zip(guess, answer.units, strict=True)]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def _truth(answer: Answer, remarks: Sequence[str] = ()) -> str:
    """What it was, and of several numbers a remark on each: "it was 6 steps", "measured 14.2 ms (close) and 2 GB/s (right)"."""
    if isinstance(answer.value, str):
        return f"{answer.source} {answer.value}" if answer.source else f"it was {answer.value!r}"
    values = answer.value if isinstance(answer.value, tuple) else (answer.value,)
    shown = [_shown(value, unit, answer.noise > 1) for value, unit in zip(values, answer.units, strict=True)]
    told = [f"{text} ({remark})" for text, remark in zip(shown, remarks, strict=True)] if remarks else shown
    source = answer.source or ("measured" if answer.noise > 1 else "it was")
    return f"{source} {' and '.join(told)}"


def _shown(value: float, unit: str, measured: bool) -> str:
    """The answer's number: all digits of a count, three of a measurement."""
    digits = f"{value:.10g}" if not measured else f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
    return f"{digits} {unit}".rstrip()


def _same(guess: Any, other: Any) -> bool:
    """Whether two words, or two numbers, are one."""
    if isinstance(guess, str) and isinstance(other, str):
        return _word(guess) == _word(other)
    return is_number(guess) and is_number(other) and bool(guess == other)


def _word(text: str) -> str:
    return "-".join(text.casefold().strip(" .'\"").replace("_", " ").replace("-", " ").split())
