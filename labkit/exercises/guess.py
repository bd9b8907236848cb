"""A prediction held against what was found: right, close or off, in one line that neither blames nor cheers.

A learner may put anything into `lab.predict`: a numpy number, a tensor, a set, an object whose repr raises. None of it may
break the record's file, or the check that comes later.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..labrecord import Told
from ..units import is_number

WIDTH = 60  # characters of a guess that are shown
_MOST = 20  # items of a list that are kept one by one
_LONGEST = 200  # characters of a text that are kept
_LARGEST = 10**300  # of a whole number: beyond, it is no float, and at some size no text
_CLOSE = 1.1  # factor, of a count
_STEPS = (1.2, 1.5, 2.0, 3.0, 4.0, 5.0)  # as one says it: within a factor of 1.5
_ORDER = ("right", "close", "off", "incomparable")
Remark = tuple[str, str]  # how it was, and that in words


@dataclass(frozen=True)
class Answer:
    """What a check has found: a number, a word, or several numbers.

    `unit` is the one that the question asks in; of several numbers one each, as in "ms, GB/s". `noise` is the factor by
    which two honest measurements may differ; 1 is a count, and exact. `also` are other ways to say the same. `source` stands
    before the answer, if not "it was", or "measured:" where there is noise.
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
    ('6 steps on 8 ranks.', 'You guessed 14. It was 6 steps: too large by a factor of 2.3.')
    """

    answer: Answer

    def __new__(cls, says: str, answer: Answer) -> Found:
        made = super().__new__(cls, says)
        made.answer = answer
        return made


def compare(guess: Any, answer: Answer) -> Told:
    """Hold a guess against the answer. Takes whatever `lab.predict` takes.

    >>> compare(4096, Answer(12288, "bytes")).says
    'You guessed 4096. It was 12288 bytes: too small by a factor of 3.'
    >>> compare(10, Answer(14.2, "ms", noise=1.2)).says
    'You guessed 10. Measured: 14.2 ms. Close, within a factor of 1.5.'
    """
    plain = kept(guess)
    fit, rest = _held(plain, answer)
    return Told(answer.value, answer.unit, fit, f"You guessed {said(plain, answer)}{rest}")


def said(guess: Any, answer: Answer | None = None) -> str:
    """A guess as it is cited: words stand in quotes, quantities do not.

    >>> said("ring"), said("3 ms, 0.5 GB/s", Answer((3.0, 0.5), "ms, GB/s")), said((10, 0.1)), said(2.0)
    ("'ring'", '3 ms, 0.5 GB/s', '10, 0.1', '2')
    """
    if isinstance(guess, (list, tuple)):
        return cut(", ".join(said(item) for item in guess)) or "nothing"
    if isinstance(guess, str):
        return cut(guess) if answer is not None and _numbers_of(guess, answer) else repr(cut(guess))
    return f"{guess:.10g}" if isinstance(guess, float) else cut(str(guess))


# ---- one guess, by the kind of the answer: how it was, and the sentence from there on
def _held(guess: Any, answer: Answer) -> Remark:
    truth = _truth(answer)
    several = isinstance(answer.value, tuple)
    if isinstance(guess, (list, tuple)) and not several:  # several guesses where one was asked for: it may be among them
        if len(guess) == 1:
            return _held(guess[0], answer)
        among = any(_held(item, answer)[0] == "right" for item in guess)
        return ("close", f". {truth}, one of them.") if among else ("incomparable", f". {truth}.")
    if isinstance(answer.value, str):
        if any(_same(guess, other) for other in (answer.value, *answer.also)):
            return "right", ": right."
        return ("off" if isinstance(guess, str) or is_number(guess) else "incomparable"), f". {truth}."
    numbers = _numbers_of(guess, answer)
    if numbers is None:
        return "incomparable", f". {truth}."
    values = answer.value if isinstance(answer.value, tuple) else (answer.value,)
    held = [_beside(*pair, answer.noise) for pair in zip(numbers, values, strict=True)]
    fit = max((fit for fit, _ in held), key=_ORDER.index)
    if several:
        return fit, f". {_truth(answer, [words for _, words in held])}."
    words = held[0][1]
    if answer.noise > 1:
        return fit, f". {truth}. {words[0].upper()}{words[1:]}."
    return fit, ": right." if fit == "right" else f". {truth}: {words}."


def _beside(number: float, value: float, noise: float) -> Remark:
    """Two numbers: a count is right or not, a measurement within its noise."""
    factor = _factor(number, value)
    if noise > 1:
        if number == value or (factor is not None and factor <= noise):
            return "right", "right, within the noise"
        if factor is not None and factor <= max(2.0, noise**2):
            step = next((step for step in _STEPS if factor <= step), math.ceil(factor))
            return "close", f"close, within a factor of {step:g}"
        return "off", _direction(number, value, factor)
    if math.isclose(number, value, rel_tol=1e-6):
        return "right", "right"
    return ("close", "close") if factor is not None and factor <= _CLOSE else ("off", _direction(number, value, factor))


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


# ---- reading and writing
def _numbers_of(guess: Any, answer: Answer) -> tuple[float, ...] | None:
    """A guess as numbers in the answer's units; None if it is not as many, or none."""
    if isinstance(answer.value, str):
        return None
    if not isinstance(answer.value, tuple):
        number: Any = read_one(guess, answer.unit) if isinstance(guess, str) else guess
        return (number,) if is_number(number) and not math.isnan(number) else None
    if isinstance(guess, str):
        return read_each(guess, answer.units)
    if not isinstance(guess, (list, tuple)) or len(guess) != len(answer.units):
        return None
    if all(isinstance(item, str) for item in guess):
        return read_each(", ".join(guess), answer.units)
    found = [_numbers_of(item, Answer(0.0, unit)) for item, unit in zip(guess, answer.units, strict=True)]
    known = tuple(number for numbers in found if numbers is not None for number in numbers)
    return known if len(known) == len(found) else None


def _truth(answer: Answer, remarks: Sequence[str] = ()) -> str:
    """What it was, and of several numbers a remark on each: "It was 6 steps", "Measured: 14.2 ms (close) and 2 GB/s (right)"."""
    if isinstance(answer.value, str):
        text = f"{answer.source} {answer.value}" if answer.source else f"it was {answer.value!r}"
    else:
        values = answer.value if isinstance(answer.value, tuple) else (answer.value,)
        shown = [_shown(value, unit, answer.noise > 1) for value, unit in zip(values, answer.units, strict=True)]
        told = [f"{text} ({remark})" for text, remark in zip(shown, remarks, strict=True)] if remarks else shown
        text = f"{answer.source or ('measured:' if answer.noise > 1 else 'it was')} {' and '.join(told)}"
    return text[0].upper() + text[1:]


def _shown(value: float, unit: str, measured: bool) -> str:
    """The answer's number: all digits of a count, three of a measurement."""
    digits = f"{value:.10g}" if not measured else f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
    return f"{digits} {unit}".rstrip()


def _same(guess: Any, other: Any) -> bool:
    """Whether two words, or two numbers, are one."""
    if isinstance(guess, str) and isinstance(other, str):
        one, two = (
            "-".join(text.casefold().strip(" .'\"").replace("_", " ").replace("-", " ").split()) for text in (guess, other)
        )
        return one == two
    return is_number(guess) and is_number(other) and bool(guess == other)


# ---- a guess as it is kept: numbers, words and short lists as they are, whatever else as a short text
def no_guess(guess: object) -> str:
    """What stands in a guess's place, if it is none: "nothing", "a function"; empty for a guess.

    >>> no_guess(...), no_guess(" "), no_guess(len), no_guess(0)
    ('nothing', 'an empty text', 'a function', '')
    """
    if guess is None or guess is ...:
        return "nothing"
    if isinstance(guess, str):
        return "" if guess.strip() else "an empty text"
    kinds = ((inspect.isroutine, "a function"), (inspect.isclass, "a class"), (inspect.ismodule, "a module"))
    return next((what for is_one, what in kinds if is_one(guess)), "")


def kept(guess: Any) -> Any:
    """A guess as plain values, which JSON can carry.

    >>> kept([3, 0.5]), kept({1}), kept(10**5000)
    ((3, 0.5), '{1}', 'about 10^5000')
    """
    guess = _unwrapped(guess)
    if isinstance(guess, (list, tuple)) and len(guess) <= _MOST:
        return tuple(_scalar(_unwrapped(item)) for item in guess)
    return _scalar(guess)


def cut(text: str, width: int = WIDTH) -> str:
    """One line, and not a long one.

    >>> cut("a\\n b"), cut("abcdefgh", 5)
    ('a b', 'ab...')
    """
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _unwrapped(guess: Any) -> Any:
    """Numbers of numpy and torch as Python's; their arrays as lists, unless they are large."""
    try:
        return guess.tolist() if math.prod(guess.shape) <= _MOST else guess
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return guess


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return cut(str(value), _LONGEST)
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST else f"about {'-' if value < 0 else ''}10^{math.log10(abs(value)):.0f}"
    return _float(value) if hasattr(value, "__float__") else _text(value)


def _float(value: Any) -> float | str:
    """Fractions and decimals too."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return _text(value)


def _text(value: Any) -> str:
    try:
        return cut(repr(value), _LONGEST)
    except Exception:  # noqa: BLE001 - a repr may be a learner's own, and raise what it likes
        return f"a {type(value).__name__}"


# ---- quantities as people write them: a number, and perhaps a unit.
# Units of bytes, time, bandwidth and share are converted; any other word beside a number ("6 steps") only says what is counted.
_FAMILIES: dict[str, dict[str, float]] = {
    "bytes": {"b": 1, "byte": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
    | {"k": 2**10, "kib": 2**10, "m": 2**20, "mib": 2**20, "g": 2**30, "gib": 2**30},
    "time": {"s": 1, "sec": 1, "second": 1, "seconds": 1, "min": 60, "minute": 60, "minutes": 60}
    | {"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6},
    "bandwidth": {"kb/s": 1e-6, "mb/s": 1e-3, "gb/s": 1, "mib/s": 2**20 / 1e9, "gib/s": 2**30 / 1e9}
    | {"mbit/s": 1 / 8e3, "gbit/s": 1 / 8},
    "share": {"%": 1, "percent": 1},
}
_UNITS = {name: (family, size) for family, names in _FAMILIES.items() for name, size in names.items()}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_LETTER = r"[^\W\d_]"
_ONE = re.compile(
    rf"(?:about |around |roughly |ca\.? |[~≈] ?)?({_NUMBER})\s*({_LETTER}(?:{_LETTER}|[ /])*|[%×])?", flags=re.IGNORECASE
)
_BETWEEN = re.compile(r"(?:[\s,;()~≈]|and|about)*", flags=re.IGNORECASE)
_EACH = re.compile(rf"({_NUMBER})\s*((?!and\b){_LETTER}(?:{_LETTER}|/)*|%)?", flags=re.IGNORECASE)


def read_one(text: str, unit: str) -> float | None:
    """The number in a text, in `unit`; None if the text is anything else.

    >>> read_one("12 KiB", "bytes"), read_one("12,288", "bytes"), read_one("~6 steps", "steps"), read_one("3 ms", "bytes")
    (12288.0, 12288.0, 6.0, None)
    """
    found = _ONE.fullmatch(re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text.strip()))
    return _in_unit(float(found[1]), found[2] or "", unit) if found else None


def read_each(text: str, units: Sequence[str]) -> tuple[float, ...] | None:
    """The numbers in a text, one for each unit, in the order of the units; None if they do not fit.

    >>> read_each("3 ms, 0.5 GB/s", ("ms", "GB/s")), read_each("500 MB/s and 3 ms", ("ms", "GB/s"))
    ((3.0, 0.5), (3.0, 0.5))
    """
    if not _BETWEEN.fullmatch(_EACH.sub(" ", text)):
        return None
    found = [(float(number), unit) for number, unit in _EACH.findall(text)]
    for order in (found, found[::-1]):
        if len(order) == len(units):
            read = [_in_unit(number, given, wanted) for (number, given), wanted in zip(order, units, strict=True)]
            numbers = tuple(number for number in read if number is not None)
            if len(numbers) == len(units):
                return numbers
    return None


def _in_unit(number: float, given: str, wanted: str) -> float | None:
    """A number in the unit that is wanted; one without a unit is in it already."""
    if not given.strip():
        return number
    one, other = (_UNITS.get(name.strip().casefold().replace("μ", "µ")) for name in (given, wanted))
    if one is None and other is None:
        return number
    return number * (one[1] / other[1]) if one and other and one[0] == other[0] else None
