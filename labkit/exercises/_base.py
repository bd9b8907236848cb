"""The registry of checks, and how one says that an answer is not right yet."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import LabkitError
from ..registry import Registry
from ..units import is_number
from ..wire import TensorTable
from .guess import cut

Check = Callable[..., str]
CHECKS: Registry[Check] = Registry("check", "labkit.exercises")
_PREDICTIONS: dict[str, str] = {}
_WIDTH = 100  # characters in a cell's output, in a window of common size
Case = tuple[str, tuple[Any, ...], float]  # in words, what a learner's function is given, and what is right


class NotYet(LabkitError):
    """An answer that is not right yet: what is off, and where to look."""

    def _render_traceback_(self) -> list[str]:
        """Broken between words if it is long; a frontend breaks in the middle of one."""
        (line,) = super()._render_traceback_()
        return textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)


def check(name: str, *, prediction: str = "") -> Callable[[Check], Check]:
    """Register a check under "<number of the lab>/<what>"; `prediction` is the one it answers, if that has another name."""
    if prediction:
        _PREDICTIONS[name] = prediction
    return CHECKS.register(name)


def prediction_of(name: str) -> str:
    """The name of the prediction that a check answers: its own, but for a few."""
    return _PREDICTIONS.get(name, name)


# ---- what a learner may hand in by mistake
def function(answer: Any, count: int) -> None:
    """NotYet where a check tries out a function of `count` values and was given something else: what it returned, say."""
    if not callable(answer):
        raise NotYet(f"this check needs your function, but got {cut(repr(answer))}", hint=_ITSELF)
    try:
        inspect.signature(answer).bind(*range(count))
    except TypeError:
        values = "one value" if count == 1 else f"{count} values"
        raise NotYet(
            f"the check calls your function with {values}, but it does not accept them",
            hint="keep the function's first line unchanged",
        ) from None
    except ValueError:
        pass  # a built-in without a signature: it is called, and says so itself


TWO_RANKS = (
    "with two ranks this mistake has no effect. To see it with four: world.stop(), %env LABKIT_RANKS=4, "
    "world = labkit.start(), then run this section again."
)
_ITSELF = "pass the function itself, without ()"


def as_number(got: Any) -> Any:
    """An answer as a number of Python's, where it is a fraction, or numpy's or torch's number; anything else as it is.

    >>> as_number(Fraction(3, 2)), as_number(None)
    (1.5, None)
    """
    if getattr(got, "shape", None) == ():
        return got.item()
    return float(got) if isinstance(got, (Fraction, Decimal)) else got


def no_text(where: str, got: Any) -> None:
    """NotYet for a number in quotes, which looks like the right one when it is printed; `where` begins the sentence."""
    if isinstance(got, str):
        raise NotYet(f"{where} {cut(repr(got))}: this is text, not a number", hint="remove the quotes or str(...)")


def heard(got: Any) -> str:
    """An answer as it is cited: what is missing says so.

    >>> heard(None), heard([1, 2]), heard("one")
    ('nothing (is there a return?)', '[1, 2]', "'one'")
    """
    return "nothing (is there a return?)" if got is None else cut(repr(got)) if isinstance(got, str) else str(got)


def close(got: Any, wanted: float, tolerance: float = 1e-6) -> bool:
    """Whether an answer is a number, and the right one but for rounding.

    >>> close(1.0, 1.0), close(None, 1.0), close(1.1, 1.0)
    (True, False, False)
    """
    got = as_number(got)
    return is_number(got) and bool(abs(got - wanted) <= tolerance * abs(wanted))


def right(answer: Callable[..., Any], cases: Iterable[Case], *, times: float = 1, tolerance: float = 1e-6) -> bool:
    """Whether a learner's function is right in all cases, or would be if its numbers were so many `times` as large.

    >>> right(lambda n: n, [("for 2", (2,), 4.0)]), right(lambda n: n, [("for 2", (2,), 4.0)], times=2)
    (False, True)
    """
    return all(close(answer(*given), wanted / times, tolerance) for _, given, wanted in cases)


def hold(
    answer: Callable[..., Any],
    cases: Iterable[Case],
    hint: str,
    *,
    said: Callable[[float], str] = "{:.4g}".format,
    truth: str = "not",
    tolerance: float = 1e-6,
) -> int:
    """Hold a learner's function against what is right, case by case; how many there were.

    NotYet names the first case that is wrong, with both numbers as `said` writes them, or in more digits where that is the
    same for both; `truth` stands before the right one.
    """
    cases = list(cases)
    function(answer, len(cases[0][1]))
    for where, given, wanted in cases:
        got = as_number(answer(*given))
        no_text(f"{where} you say", got)
        if not close(got, wanted, tolerance):
            known = is_number(got)
            write = "{:.10g}".format if known and said(got) == said(wanted) else said
            raise NotYet(f"{where} you say {write(got) if known else heard(got)}, {truth} {write(wanted)}", hint=hint)
    return len(cases)


def rows(table: TensorTable) -> dict[int, tuple[float, ...]]:
    """A variable's values by rank; NotYet if a rank does not have it."""
    if not isinstance(table, TensorTable):
        raise NotYet(f"this check needs a TensorTable, not {type(table).__name__}", hint='pass it world.tensors("...")')
    if table.missing:
        raise NotYet(f"{table.name} is missing on rank {table.missing[0]}", hint="run the cell above on all ranks")
    return {sample.rank: sample.values for sample in sorted(table.samples, key=lambda sample: sample.rank)}


def plain(numbers: tuple[float, ...] | list[float]) -> list[float | int]:
    """Numbers as people write them.

    >>> plain((77.0, 19.25))
    [77, 19.25]
    """
    return [int(number) if float(number).is_integer() else number for number in numbers]


def totals(size: int) -> list[int]:
    """The sum where rank r starts with 2p r + 1, 2p r + 2, ..., 2p numbers on each of p ranks.

    >>> totals(2)
    [6, 8, 10, 12]
    """
    width = 2 * size
    return [sum(width * rank + place + 1 for rank in range(size)) for place in range(width)]
