"""The error tree: as drawn, one line long, with facts, and the same on both sides of a process border."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import errors
from labkit.errors import LabkitError, join_ranks

KINDS = sorted((k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, LabkitError)), key=lambda k: k.__name__)
NAMES = [kind.__name__ for kind in KINDS]


def drawn_parents(drawing: str) -> dict[str, str]:
    """Child -> parent, as the tree in the docstring has it."""
    parents: dict[str, str] = {}
    above: list[str] = []
    indent = 0
    for line in drawing.splitlines():
        found = re.match(r"^([ │├└─]*)([A-Z]\w*Error|[A-Z][a-z]+[A-Z]\w+)\b", line)
        if not found:
            continue
        indent = len(found[1]) if not above else indent
        depth = (len(found[1]) - indent) // 4
        above[depth:] = [found[2]]
        if depth:
            parents[found[2]] = above[depth - 1]
    return parents


def test_the_tree_is_as_drawn() -> None:
    real = {kind.__name__: kind.__mro__[1].__name__ for kind in KINDS if kind is not LabkitError}
    assert drawn_parents(errors.__doc__ or "") == real


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_message_ends_with_the_next_step(kind: type[LabkitError]) -> None:
    error = kind("rank 2 is gone", hint="call world.recover()", ranks=(2,))
    assert str(error) == "rank 2 is gone; call world.recover()"
    assert error.ranks == (2,)
    assert error._render_traceback_() == [f"{kind.__name__}: {error}"]
    assert (kind.__doc__ or "").strip()


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "deep", "pickle"]
)
def test_a_copy_is_the_same_error(kind: type[LabkitError], again: object) -> None:
    error = again(kind("what", hint="do", name="x", ranks=(0, 1)))  # type: ignore[operator]
    assert type(error) is kind
    assert (str(error), error.what, error.hint, error.name, error.ranks) == ("what; do", "what", "do", "x", (0, 1))


def test_usage_errors_are_value_errors_and_refusals_runtime_errors() -> None:
    assert issubclass(errors.UnknownName, ValueError)
    assert issubclass(errors.ContractError, RuntimeError)


def test_a_fact_that_was_not_given_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        LabkitError("what", ranks=1).devices  # noqa: B018


@given(st.sets(st.integers(0, 40)))
def test_joined_ranks_read_back(ranks: set[int]) -> None:
    text = join_ranks(sorted(ranks, reverse=True))
    read = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        read |= set(range(int(first), int(last or first) + 1))
    assert read == ranks
    assert text.startswith("rank " if len(ranks) == 1 else "ranks " if ranks else "no rank")
