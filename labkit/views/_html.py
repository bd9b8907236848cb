"""Small pieces of HTML that the views share. Whatever comes from a record passes `esc`."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable, Sequence
from importlib import resources

ACCENTS = ("good", "bad", "wait", "info")


def esc(value: object) -> str:
    """Text made safe for HTML, attributes included."""
    return html.escape(str(value), quote=True)


@functools.cache
def styles() -> str:
    """The whole style sheet, squeezed."""
    css = resources.files("labkit.views").joinpath("static/labkit.css").read_text(encoding="utf-8")
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return re.sub(r"\s*([{};:,>])\s*", r"\1", " ".join(css.split())).replace(";}", "}")


@functools.cache
def _rules() -> tuple[tuple[tuple[frozenset[str], ...], str], ...]:
    """Each rule with what must occur for it to matter: one set of classes and elements per selector."""
    found = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", styles()):
        needs = tuple(frozenset(_NAME.findall(_QUALIFIER.sub("", one))) - {"labkit"} for one in selectors.split(","))
        found.append((needs, f"{selectors}{{{body}}}"))
    return tuple(found)


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


def block(body: str, accent: str = "", head: str = "") -> str:
    """A section with a bar at its left; `head` is escaped, `body` is HTML."""
    name = f"lk-block lk-{accent}" if accent else "lk-block"
    top = f'<div class="lk-head">{esc(head)}</div>' if head else ""
    return f'<section class="{name}">{top}{body}</section>'


def para(text: str, name: str = "") -> str:
    return f'<p class="{name}">{esc(text)}</p>' if name else f"<p>{esc(text)}</p>"


def pre(text: str, name: str = "") -> str:
    return f'<pre class="{name}">{esc(text)}</pre>' if name else f"<pre>{esc(text)}</pre>"


def details(summary: str, body: str) -> str:
    """A collapsed part; `summary` is escaped, `body` is HTML."""
    return f"<details><summary>{esc(summary)}</summary>{body}</details>"


def bullets(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{esc(item)}</li>" for item in items) + "</ul>"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and what belongs to them."""
    return "<dl>" + "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in rows) + "</dl>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A plain table; the first cell of a row is its heading."""
    top = f"<caption>{esc(caption)}</caption>" if caption else ""
    columns = "".join(f'<th scope="col">{esc(name)}</th>' for name in head)
    lines = "".join(
        f'<tr><th scope="row">{esc(row[0])}</th>' + "".join(f"<td>{esc(cell)}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return f'<div class="lk-scroll"><table>{top}<thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>'
