"""A guess as it can be kept: numbers, words and short lists as they are, whatever else as a short text.

A learner may put anything into `lab.predict`: a numpy number, a tensor, a set, an object whose repr raises. None of it may
break the record's file, or the check that comes later.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

WIDTH = 60  # characters of a guess that are shown
MOST = 20  # items of a list that are kept one by one
_LONGEST = 200  # characters of a text that are kept
_LARGEST = 10**300  # of a whole number: beyond, it is no float, and at some size no text


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
    if isinstance(guess, (list, tuple)) and len(guess) <= MOST:
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
        return guess.tolist() if math.prod(guess.shape) <= MOST else guess
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
