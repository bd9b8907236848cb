"""One tree for each record: what it says, as parts that a terminal and a notebook can both show.

A view (`labkit.views`) makes the tree of one kind of record. `as_text` renders a tree for a terminal, `views.to_html` for a
notebook. A record class that derives from `Printed` prints itself by its view: the registry loads the views when the first
record is printed, so records need not import them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .phrases import HANGING, WIDTH, bands, columns
from .registry import Registry

_LEAST = 24  # characters of a last column that is wrapped


@dataclass(frozen=True)
class Heading:
    """A line above the rest; `note` stands small beside it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Paragraph:
    """One or a few sentences.

    `role` is "" or a style: "lead" (bold), "detail" (small), "tag" (small), "next" (the next step). `mark` is a symbol before
    it in HTML. `label` stands before it in text, `tag` on a small line above it in HTML. `indent` is in characters of text.
    """

    text: str
    role: str = ""
    mark: str = ""
    label: str = ""
    tag: str = ""
    indent: int = 0


@dataclass(frozen=True)
class Code:
    """Text that keeps its lines as they are. `role` is "", "source", "stderr", "value" or "note"."""

    text: str
    role: str = ""
    indent: int = 0


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its words: `html` is its body there, `name` the CSS classes."""

    text: str
    html: str = ""
    name: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a head. In text, columns in `right` are set to the right; with `words` a wide last column is wrapped.

    A column that is only drawn, in HTML, is left out of text.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    right: Collection[int] = ()
    words: bool = False
    row_head: int = 0  # the column that names the row
    head_in_text: bool = True


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Pairs:
    """Names and what belongs to them."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Picture:
    """Something drawn: `html` is an SVG or HTML fragment, escaped already; `text` is what stands for it in a terminal."""

    html: str = ""
    text: str = ""


@dataclass(frozen=True)
class Details:
    """A part that is closed until somebody opens it; a terminal leaves it out."""

    summary: str
    parts: Sequence[Node]


@dataclass(frozen=True)
class Block:
    """A section with a coloured bar; `accent` is "", "good", "bad", "wait" or "info"."""

    parts: Sequence[Node]
    accent: str = ""
    head: str = ""


@dataclass(frozen=True)
class Group:
    """Parts that stand together; `name` is the CSS class, `gap` puts an empty line between them in text."""

    parts: Sequence[Node]
    name: str = ""
    gap: bool = False


Node = Heading | Paragraph | Code | Table | Items | Pairs | Picture | Details | Block | Group
Tree = Sequence[Node]


def as_text(tree: Iterable[Node]) -> str:
    """A tree as text of at most 80 columns, without a newline at its end; only code keeps longer lines.

    >>> print(as_text([Paragraph("rank 2 is gone", label="LK001"), Pairs([("lost", "x")])]))
    LK001: rank 2 is gone
      lost: x
    """
    return "\n".join(filter(None, map(_text, tree)))


def _text(node: Node) -> str:  # noqa: PLR0911
    match node:
        case Heading():
            return wrap(f"{node.text}, {node.note}" if node.note else node.text)
        case Paragraph():
            words = f"Next: {node.text}" if node.role == "next" else node.text
            return wrap(f"{node.label}: {words}" if node.label else words, node.indent)
        case Code():
            before = " " * node.indent + ("stderr | " if node.role == "stderr" else "")
            return "\n".join(f"{before}{line}".rstrip() for line in node.text.split("\n"))
        case Table():
            return _table(node)
        case Items():
            return "\n".join(wrap(f"- {item}", 2) for item in node.items)
        case Pairs():
            return "\n".join(wrap(f"{name}: {value}", 2) for name, value in node.rows)
        case Picture():
            return node.text
        case Details():
            return ""
        case Block():
            return as_text([Heading(node.head), *node.parts] if node.head else node.parts)
        case Group():
            return ("\n\n" if node.gap else "\n").join(filter(None, map(_text, node.parts)))


def wrap(text: str, indent: int = 0) -> str:
    """Each line broken where it is too long; the later pieces are set in by four more."""
    left = " " * indent
    lines = []
    for line in text.split("\n"):
        if len(line) + indent <= WIDTH:
            lines.append(left + line)
        else:
            lines += textwrap.wrap(
                line, WIDTH, initial_indent=left, subsequent_indent=left + HANGING, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(line.rstrip() for line in lines)


def _table(table: Table) -> str:
    seen = [i for i in range(len(table.head)) if not all(_drawn(row[i]) for row in table.rows) or not table.rows]
    right = {place for place, i in enumerate(seen) if i in table.right}
    rows = [[_words(row[i]) for i in seen] for row in table.rows]
    rows = [[table.head[i] for i in seen], *rows] if table.head_in_text else rows
    if not rows:
        return ""
    caption = [wrap(table.caption)] if table.caption else []
    if not table.words:
        return "\n".join([*caption, bands(rows, right=right)])
    last = len(rows[0]) - 1
    taken = sum(2 + max(len(row[i]) for row in rows) for i in range(last))
    room = max(WIDTH - taken, _LEAST)
    lines: list[list[str]] = []
    for row in rows:
        pieces = [piece for line in row[last].split("\n") for piece in (textwrap.wrap(line, room) or [""])]
        lines += [[*(row[:last] if not i else [""] * last), piece] for i, piece in enumerate(pieces)]
    return "\n".join([*caption, columns(lines, right=right)])


def _words(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _drawn(cell: str | Cell) -> bool:
    """A cell that a terminal can't show."""
    return isinstance(cell, Cell) and not cell.text and bool(cell.html)


@dataclass(frozen=True)
class View:
    """How one kind of record is drawn: `tree` makes its parts, none for a record that has nothing to show.

    `place` is the record's module and class: a layer that views may not import is known by name. `rich` gives further forms
    by mime type.
    """

    place: tuple[str, str]
    tree: Callable[[Any], Tree]
    rich: Callable[[Any], dict[str, Any]] | None = None


VIEWS: Registry[View] = Registry("view", "labkit.views")


def tree_of(record: Any) -> Tree:
    """The tree of a record; raises UnknownName for anything that has no view."""
    return VIEWS[type(record).__name__].tree(record)


def to_text(record: Any) -> str:
    """The text of a record: what its view shows in a terminal, and what `print(record)` prints."""
    return as_text(tree_of(record))


class Printed:
    """A record that prints itself by its view."""

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return to_text(self)
