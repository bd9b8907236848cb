"""Small pieces of HTML that the views share. Whatever comes from a record passes `esc`."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable
from importlib import resources

from ..document import Block, Cell, Code, Details, Group, Heading, Items, Node, Pairs, Paragraph, Picture, Table


def esc(value: object) -> str:
    """Text made safe for HTML, attributes included."""
    return html.escape(str(value), quote=True)


@functools.cache
def styles(name: str = "labkit") -> str:
    """A whole style sheet, squeezed."""
    css = resources.files("labkit.views").joinpath(f"static/{name}.css").read_text(encoding="utf-8")
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return re.sub(r"\s*([{};:,>])\s*", r"\1", " ".join(css.split())).replace(";}", "}")


@functools.cache
def _rules() -> tuple[tuple[tuple[frozenset[str], ...], str], ...]:
    """Each rule with what must occur for it to matter: one set of classes and elements per selector."""
    found = []
    for around, selectors, body in _RULE.findall(styles() + styles("calls")):
        needs = tuple(frozenset(_NAME.findall(_QUALIFIER.sub("", one))) - {"labkit"} for one in selectors.split(","))
        found.append((needs, f"{around}{selectors}{{{body}}}" + ("}" if around else "")))
    return tuple(found)


_RULE = re.compile(r"(@[^{}]+\{)?([^{}@]+)\{([^{}]*)\}")  # a rule, or the one rule of an @container
_NAME = re.compile(r"[a-z][\w-]*")
_QUALIFIER = re.compile(r"\[[^]]*\]|::?[a-z-]+(?:\([^)]*\))?")


def styles_for(body: str) -> str:
    """The rules that a body has use for: a saved notebook carries them once per output."""
    words = " ".join(re.findall(r'class="([^"]*)"', body)).split()
    there = {*words, *re.findall(r"<([a-z]+)", body)}
    return "".join(rule for needs, rule in _rules() if any(need <= there for need in needs))


def frame(body: str) -> str:
    """A whole output: styles, and the body in the element they are scoped to."""
    return f'<style>{styles_for(body)}</style><div class="labkit">{body}</div>'


def as_html(tree: Iterable[Node]) -> str:
    """A tree as HTML; whatever is no picture is escaped."""
    return "".join(map(_node, tree))


def _node(node: Node) -> str:  # noqa: PLR0911
    match node:
        case Heading():
            note = f' <span class="lk-tag">{esc(node.note)}</span>' if node.note else ""
            return f'<div class="lk-head">{words(node.text)}{note}</div>'
        case Paragraph():
            return _paragraph(node)
        case Code():
            tag = '<div class="lk-tag">stderr</div>' if node.role == "stderr" else ""
            return tag + _element("pre", f"lk-{node.role}" if node.role else "", esc(node.text))
        case Table():
            return _table(node)
        case Items():
            return "<ul>" + "".join(f"<li>{words(item)}</li>" for item in node.items) + "</ul>" if node.items else ""
        case Pairs():
            rows = "".join(f"<dt>{esc(name)}</dt><dd>{words(value)}</dd>" for name, value in node.rows)
            return f"<dl>{rows}</dl>" if rows else ""
        case Picture():
            return node.html
        case Details():
            return f"<details><summary>{esc(node.summary)}</summary>{as_html(node.parts)}</details>"
        case Block():
            top = f'<div class="lk-head">{words(node.head)}</div>' if node.head else ""
            name = f"lk-block lk-{node.accent}" if node.accent else "lk-block"
            return f'<section class="{name}">{top}{as_html(node.parts)}</section>'
        case Group():
            return _element("div", node.name, as_html(node.parts))


def _paragraph(node: Paragraph) -> str:
    tag = f'<div class="lk-tag">{esc(node.tag)}</div>' if node.tag else ""
    before = "<b>Next:</b> " if node.role == "next" else (f"{node.mark} " if node.mark else "")
    return tag + _element("p", f"lk-{node.role}" if node.role else "", before + words(node.text))


def _element(name: str, style: str, body: str) -> str:
    return f'<{name} class="{style}">{body}</{name}>' if style else f"<{name}>{body}</{name}>"


def words(text: str) -> str:
    """Escaped text in which what stands between backticks is code.

    >>> words("call `f(<x>)`")
    'call <code>f(&lt;x&gt;)</code>'
    """
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", esc(text))


def _table(node: Table) -> str:
    caption = f"<caption>{esc(node.caption)}</caption>" if node.caption else ""
    head = "".join(f'<th scope="col">{esc(name)}</th>' for name in node.head)
    rows = "".join(f"<tr>{''.join(_cell(cell, i == node.row_head) for i, cell in enumerate(row))}</tr>" for row in node.rows)
    style = ' class="lk-words"' if node.words else ""
    return f'<div class="lk-scroll"><table{style}>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(cell: str | Cell, names_row: bool) -> str:
    body = words(cell) if isinstance(cell, str) else cell.html or words(cell.text)
    if names_row:
        return f'<th scope="row">{body}</th>'
    return _element("td", cell.name if isinstance(cell, Cell) else "", body)
