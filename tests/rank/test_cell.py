"""What a rank tells of an exception in a cell."""

from __future__ import annotations

import json

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from labkit.diagnosis.source import block
from labkit.endings import groups_broken
from labkit.rank.cell import as_python
from labkit.rank.raised import describe_error
from labkit.wire import CallSite, CodeError, Evidence, Outcome

CLOSED = "'NCCL error: Connection closed by peer'"


def error_of(source: str, **names: object) -> CodeError:
    """The exception that a cell ends in."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any that the source raises
        exec(compile(source, "cell 7", "exec"), dict(names))
    return describe_error(caught.value)


@pytest.mark.parametrize(
    ("source", "own"),
    [
        (f"raise RuntimeError({CLOSED})", True),
        (f"def load():\n    raise RuntimeError({CLOSED})\nload()", True),
        ("call()", False),  # a library's function, written in Python
        ("int('x')", False),  # written in C
        ("try:\n    call()\nexcept RuntimeError as e:\n    raise e", False),
        (f"try:\n    call()\nexcept RuntimeError as e:\n    raise RuntimeError({CLOSED}) from e", False),
    ],
)
def test_a_raise_of_the_learners_own_is_told_from_a_librarys(source: str, own: bool) -> None:
    library: dict[str, object] = {}
    exec(compile(f"def call(): raise RuntimeError({CLOSED})", json.__file__, "exec"), library)
    error = error_of(source, call=library["call"])
    assert error.own is own
    if error.type == "RuntimeError":
        assert groups_broken([Outcome(0, "error", error=error)], Evidence(1)) is not own


def test_a_syntax_error_tells_its_line_once() -> None:
    error = error_of("for x in")
    assert (error.type, error.message, str(error.site)) == ("SyntaxError", "invalid syntax", "cell 7, line 1")


class Shell:
    """Cuts blank lines off, as IPython's does."""

    def transform_cell(self, code: str) -> str:
        return TransformerManager().transform_cell(code)


@pytest.mark.parametrize("blank", ["", "\n", "\n\n  \n"])
@pytest.mark.parametrize("shell", [None, Shell()])
def test_a_line_has_the_number_that_was_typed(blank: str, shell: Shell | None) -> None:
    source = as_python(shell, f"{blank}x = 1\n\nraise ValueError(x)\n")
    assert error_of(source).site == CallSite("cell 7", blank.count("\n") + 3, "<module>")


def test_ipythons_own_syntax_is_still_taken() -> None:
    assert "get_ipython()" in as_python(Shell(), "\n%time x = 1")


@pytest.mark.parametrize("odd", ["\u2028", "\f", "\x1c", "\x85"])
def test_what_ends_no_line_for_python_ends_none_here(odd: str) -> None:
    source = f"text = 'a{odd}b'\nif rank == 0:\n    dist.barrier()\n"
    name = "cell 7"
    frame = Evidence(2, sources={"7": source})
    assert frame.source_line(CallSite(name, 3)) == "dist.barrier()"
    assert block(source, 3) == ((2, "If.body"),)
