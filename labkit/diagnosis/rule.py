"""What a rule is: a code, a name, a docstring of four sections, and a claim on aligned evidence.

A rule is one file in `rules/`: it says there when it speaks, before which rules, and whether time may mend what it has found.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from ..registry import Registry
from ..vocabulary import Ending
from ..wire import Side, Verdict
from . import words
from .alignment import Alignment


class Rule:
    """One way a world goes wrong: `claim` says it in a Verdict, or gives None where it does not apply.

    `priority`: of the rules that claim the same calls and waits, those with the lowest number speak; the others keep silent.
    `independent`: seen from outside of the calls, so it is told whatever else is wrong.
    `may_resolve`: time may end it, so a cell goes on until its deadline.
    """

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    priority: ClassVar[int] = 50
    independent: ClassVar[bool] = False
    may_resolve: ClassVar[bool] = False

    def claim(self, world: Alignment) -> Verdict | None:
        """The verdict, if this rule's evidence is there."""
        raise NotImplementedError

    def say(
        self,
        world: Alignment,
        sentence: str,
        culprits: tuple[int, ...] = (),
        *,
        sides: tuple[Side, ...],
        fix: str = "",
        next_step: str = "",
        facts: tuple[str, ...] = (),
        ending: Ending = Ending.HANG,
        waiting: tuple[int, ...] | None = None,
    ) -> Verdict:
        """A verdict of this rule: a sentence without its full stop, and the ranks that are to blame.

        `waiting`: all others that wait, if not given. `fix` says how to fix the code; what to do with the world after that is
        added; `next_step` is said as it is. How long ranks have waited is added to `facts`.
        """
        waiting = words.others_waiting(world, culprits) if waiting is None else waiting
        next_step = next_step or f"{fix}. {words.after_fixing(world)}"
        facts = (*facts, *words.wait_facts(world))
        return Verdict(self.code, self.name, self.title, f"{sentence}.", culprits, waiting, sides, next_step, facts, ending)


R = TypeVar("R", bound=type[Rule])

RULES: Registry[Rule] = Registry("rule", "labkit.diagnosis.rules")


def rule(cls: R) -> R:
    """Class decorator: put one instance of the rule into `RULES` under its code."""
    RULES.add(cls.code, cls())
    return cls
