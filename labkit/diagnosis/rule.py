"""What a rule is: a code, a name, a docstring of four sections, and a claim on aligned evidence."""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar, TypeVar

from ..registry import Registry
from ..wire import Verdict
from .layout import Alignment

SECTIONS = ("What", "Why", "Evidence", "Remedy")


class Rule:
    """One way a world goes wrong: `claim` says it in a Verdict, or gives None where it does not apply."""

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def claim(self, world: Alignment) -> Verdict | None:
        """The verdict, if this rule's evidence is there."""
        raise NotImplementedError

    def say(self, sentence: str, **parts: Any) -> Verdict:
        """A verdict of this rule."""
        return Verdict(self.code, self.name, self.title, sentence, **parts)

    @classmethod
    def sections(cls) -> dict[str, str]:
        """The docstring's sections: {"What": ..., "Why": ..., "Evidence": ..., "Remedy": ...}."""
        text = inspect.cleandoc(cls.__doc__ or "")
        parts = re.split(rf"^({'|'.join(SECTIONS)}): ", text, flags=re.MULTILINE)
        return {head: " ".join(body.split()) for head, body in zip(parts[1::2], parts[2::2], strict=True)}


R = TypeVar("R", bound=type[Rule])

RULES: Registry[Rule] = Registry("rule", "labkit.diagnosis.rules")


def rule(cls: R) -> R:
    """Class decorator: put one instance of the rule into `RULES` under its code."""
    RULES.add(cls.code, cls())
    return cls
