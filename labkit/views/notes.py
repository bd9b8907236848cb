"""A note beside a cell's result: the slip in one line, what it does, the line itself, and what to do."""

from __future__ import annotations

from ..document import Block, Code, Node, Paragraph, Tree
from ..notes import Note
from ._base import add
from ._text import one_line, sentence


def note_block(note: Note) -> Block:
    """The block that also a cell's result and a diagnosis show."""
    parts: list[Node] = [Paragraph(f"Note, {note.place}: {sentence(note.title)}", "lead", mark="!")]
    parts += [Code(one_line(note.source, 120), "source", indent=6)] if note.source else []
    parts += [Paragraph(sentence(note.sentence), indent=2)] if note.sentence else []
    parts += [Paragraph(sentence(note.next_step), "next", indent=2)] if note.next_step else []
    return Block(parts, "info")


def note_tree(note: Note) -> Tree:
    """One block."""
    return [note_block(note)]


add(Note, note_tree)
