"""Small pieces of text that the views share: capping and cleaning what ranks print; and what records need as well."""

from __future__ import annotations

import re

from ..errors import count
from ..phrases import bands, columns, cut, fold, label, sentence, wrapped

__all__ = [
    "INDENT", "LIMIT", "bands", "cap", "clean", "columns", "count", "fold", "indent", "label", "one_line", "sentence", "wrapped",
]  # fmt: skip

LIMIT = 20_000  # characters of one rank's output; more makes a notebook slow to open
INDENT = "  "

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def clean(text: str) -> str:
    """Text as a terminal would have left it: no colour codes, and a progress bar only in its last state.

    >>> clean("10%\\r50%\\r100%\\n")
    '100%\\n'
    """
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        # A later, shorter piece overwrites only the start of what was there before it.
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return _CONTROL.sub("\ufffd", text)


def _overwritten(line: str) -> str:
    shown = ""
    for piece in line.split("\r"):
        shown = piece + shown[len(piece) :]
    return shown


def cap(text: str, already_cut: int = 0, limit: int = LIMIT, rest: str = "") -> str:
    """The first `limit` characters, and how many more there are.

    >>> cap("abcdef", limit=2, rest="; world.pull gets the rest")
    'ab\\n... 4 more characters; world.pull gets the rest'
    """
    more = max(len(text) - limit, 0) + already_cut
    return f"{text[:limit]}\n... {count(more, 'more character')}{rest}" if more else text


def one_line(text: str, limit: int = 200) -> str:
    """The first line that says something; a long one is cut in the middle, since messages name the matter at the end."""
    first = next((line.strip() for line in clean(text).splitlines() if line.strip()), "")
    return cut(first, limit)


def indent(text: str, by: str = INDENT) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.split("\n"))
