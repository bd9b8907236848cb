"""Every error labkit raises on purpose, in one tree; facts are attributes and the message ends with the next step.

LabkitError
├── UsageError (also ValueError)   the call can't be right; nothing was changed
│   ├── UnknownName                a fault, op, rank, variable or lab that does not exist
│   ├── NoWorld                    there is no running world
│   └── WorldMismatch              a world runs already and differs from what is asked for
├── YourTurn                       a part of a lab that is left to the learner
├── StartError                     a world could not be started
│   ├── NotEnoughDevices           more ranks than GPUs
│   └── NotEnoughMemory            no room for that many ranks
├── RankError                      a rank's own code raised, died, or did not come back
│   ├── RankBusy                   the rank still runs an earlier cell
│   ├── RankDead                   the rank's process is gone
│   ├── RankRaised                 the learner's code raised on the rank
│   ├── RankStuck                  the rank waits for something that will not come
│   └── DeadlineExceeded           the rank did not answer in time
├── ContractError (also RuntimeError)  safe mode refused a collective that does not match
├── RecoveryError                  no rung of the ladder gave a healthy world
└── WireError                      a message between processes could not be read
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class LabkitError(Exception):
    """Root of the tree: `what` happened, `hint` what to do next, `facts` as attributes.

    >>> error = LabkitError("port 80 is taken", hint="pick another port", port=80)
    >>> str(error), error.port
    ('port 80 is taken; pick another port', 80)
    """

    def __init__(self, what: str, *, hint: str = "", **facts: Any) -> None:
        self.what, self.hint, self.facts = what, hint, facts
        super().__init__(f"{what}; {hint}" if hint else what)

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.what, self.hint, self.facts))

    def _render_traceback_(self) -> list[str]:
        """IPython shows this instead of a stack: a learner's error is one line."""
        return [f"{type(self).__name__}: {self}"]


_YOURS = "write them in place of `raise labkit.errors.YourTurn`"


def _rebuild(kind: type[LabkitError], what: str, hint: str, facts: dict[str, Any]) -> LabkitError:
    return kind(what, hint=hint, **facts)


class UsageError(LabkitError, ValueError):
    """The call can't be right; nothing was changed and nothing was lost."""


class UnknownName(UsageError):
    """A name that does not exist; `kind`, `name` and `known` are attributes."""


class NoWorld(UsageError):
    """There is no running world in this notebook."""


class WorldMismatch(UsageError):
    """A world is running and it differs from the one asked for."""


class YourTurn(LabkitError):
    """A part of a lab that is left to you; it stands where your lines belong."""

    def __init__(self, what: str = "your lines are missing here", *, hint: str = _YOURS, **facts: Any) -> None:
        super().__init__(what, hint=hint, **facts)


class StartError(LabkitError):
    """A world could not be started; what had been started was stopped again."""


class NotEnoughDevices(StartError):
    """More ranks were asked for than there are GPUs; `ranks` and `devices` are attributes."""


class NotEnoughMemory(StartError):
    """The ranks would not fit in free memory; `needed_bytes` and `free_bytes` are attributes."""


class RankError(LabkitError):
    """Something happened on ranks; `ranks` is an attribute."""


class RankBusy(RankError):
    """A rank still runs an earlier cell."""


class RankDead(RankError):
    """A rank's process is gone."""


class RankRaised(RankError):
    """The learner's code raised on a rank; the text says which rank and which line."""


class RankStuck(RankError):
    """A rank waits for something that will not come."""


class DeadlineExceeded(RankError):
    """A rank did not answer before its deadline."""


class ContractError(LabkitError, RuntimeError):
    """Safe mode found that ranks disagree on a collective and refused to issue it."""


class RecoveryError(LabkitError):
    """No rung of the recovery ladder gave a healthy world."""


class WireError(LabkitError):
    """A message between processes could not be read."""


def count(number: int, noun: str, plural: str = "s") -> str:
    """
    >>> count(1, "call"), count(1200, "call"), count(2, "process", "es")
    ('1 call', '1,200 calls', '2 processes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{plural}"


def shown(value: object, limit: int = 80) -> str:
    """What was given, for a message: one short line, whatever it is.

    >>> shown("ring"), shown(10**5000), shown([1] * 99, limit=9)
    ("'ring'", 'an int', '[1, 1,...')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - a whole number of 5,000 digits has no text, and others' classes may do anything
        kind = type(value).__name__
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def join_ranks(ranks: Sequence[int]) -> str:
    """Ranks as people write them.

    >>> join_ranks([2]), join_ranks([0, 1, 3]), join_ranks([0, 1, 2, 3, 6])
    ('rank 2', 'ranks 0, 1 and 3', 'ranks 0-3 and 6')
    """
    ranks = sorted(set(ranks))
    parts: list[str] = []
    index = 0
    while index < len(ranks):
        end = index
        while end + 1 < len(ranks) and ranks[end + 1] == ranks[end] + 1:
            end += 1
        if end - index >= 2:
            parts.append(f"{ranks[index]}-{ranks[end]}")
        else:
            parts.extend(str(ranks[i]) for i in range(index, end + 1))
        index = end + 1
    if not parts:
        return "no rank"
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"{word} {parts[0]}" if len(parts) == 1 else f"{word} {', '.join(parts[:-1])} and {parts[-1]}"
