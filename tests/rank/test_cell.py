"""What a rank tells of an exception in a cell."""

from __future__ import annotations

import json

import pytest

from labkit.endings import groups_broken
from labkit.rank.raised import describe_error
from labkit.wire import CodeError, Evidence, Outcome

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
