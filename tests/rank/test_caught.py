"""A cell's handlers say what they catch: once for each kind, with its line, and the cell is otherwise as it was."""

from __future__ import annotations

import ast

import pytest

from labkit.rank.caught import MOST, Caught, with_notes
from labkit.wire import CallSite


def caught(source: str) -> Caught:
    found = Caught()
    found.begin_cell()
    exec(compile(with_notes(ast.parse(source, "cell 3")), "cell 3", "exec"), {})
    return found


def said(source: str) -> list[tuple[str, CallSite | None]]:
    return [(error.said(), error.site) for error in caught(source).newest]


@pytest.mark.parametrize("rest", ["pass", "continue", "print('skip')", "x = 1"])
def test_what_a_handler_catches_is_kept_with_its_line(rest: str) -> None:
    source = f"def f():\n    {{}}['y']\nfor i in range(3):\n    try:\n        f()\n    except KeyError as e:\n        {rest}"
    assert said(source) == [("KeyError: 'y'", CallSite("cell 3", 2, "f"))]


def test_nothing_is_kept_where_nothing_is_raised_or_caught() -> None:
    assert said("try:\n    x = 1\nexcept KeyError:\n    pass") == []


def test_handlers_in_functions_and_in_handlers_count() -> None:
    source = "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        try:\n            int('a')\n"
    assert [text for text, _ in said(source + "        except ValueError:\n            pass\nf()")] == [
        "ZeroDivisionError: division by zero", "ValueError: invalid literal for int() with base 10: 'a'",
    ]  # fmt: skip


def test_few_are_kept_however_many_there_are() -> None:
    lines = [f"def f{n}():\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        pass\nf{n}()" for n in range(20)]
    assert len(said("\n".join(lines))) == MOST


def test_lines_of_errors_are_as_they_were() -> None:
    source = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    int('a')"
    with pytest.raises(ValueError, match="invalid") as error:
        caught(source)
    assert error.traceback[-1].lineno == 3  # counted from 0


def test_a_cell_begins_with_none() -> None:
    found = caught("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass")
    assert found.newest
    found.begin_cell()
    assert found.newest == ()
