"""What is handed in by mistake, in all labs: a call instead of the function, a function that only prints, a number in quotes."""

from __future__ import annotations

import collections.abc
import inspect
import json
from fractions import Fraction
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import numpy as np
import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.exercises.lab02_rings import copied_ring, schedule_of
from labkit.labs import source_of
from labkit.schedule import check_schedule

LABS = Path(__file__).resolve().parent.parent.parent / "labs"


def cells(lab: str) -> dict[str, str]:
    """The sources of a lab's cells by their names."""
    return {cell["id"]: source_of(cell) for cell in json.loads((LABS / f"{lab}.ipynb").read_text())["cells"]}


def takes_a_function(name: str) -> bool:
    hints = get_type_hints(CHECKS[name])
    first = next(iter(inspect.signature(CHECKS[name]).parameters))
    return get_origin(hints[first]) is collections.abc.Callable


FUNCTIONS = [name for name in CHECKS if takes_a_function(name)]


def refused(name: str, answer: Any) -> NotYet:
    """`answer` and nothing in the other places: what is wrong with it comes first."""
    others = len(inspect.signature(CHECKS[name]).parameters) - 1
    with pytest.raises(NotYet) as caught:
        CHECKS[name](answer, *[None] * others)
    return caught.value


def test_there_are_such_checks() -> None:
    assert len(FUNCTIONS) >= 16
    assert {name[:2] for name in FUNCTIONS} == {"01", "02", "03"}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("given", [12288, None, "a" * 200])
def test_a_call_instead_of_the_function(name: str, given: object) -> None:
    missing = refused(name, given)
    assert missing.what.startswith("this check needs your function, but got ")
    assert missing.hint == "pass the function itself, without ()"
    assert len(missing.what) < 120


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_takes_other_values(name: str) -> None:
    for answer in (lambda: 1, lambda one, two, three, four, five: 1, lambda *, ranks: 1):
        missing = refused(name, answer)
        assert missing.what.startswith("the check calls your function with ")
        assert missing.hint == "keep the function's first line unchanged"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_only_prints(name: str) -> None:
    assert "(is there a return?)" in refused(name, lambda *given: None).what


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {"01/correct", "02/my-ring", "03/alpha-beta"}])
def test_a_number_in_quotes(name: str) -> None:
    assert refused(name, lambda *given: "12").what.endswith(": this is text, not a number")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("01/blame", lambda total, primes: ["1"] * len(primes)),
        ("02/chunks", lambda elements, ranks: ["3", "3", "2", "2"]),
        ("02/my-ring", lambda ranks: [[("0", 1, 0, True)]]),
        ("02/my-ring", lambda ranks: [[(0, 1, "0", True)]]),
        ("02/mend", lambda rank, step, ranks: str((rank + 1 - step) % ranks)),
        ("03/alpha-beta", lambda ranks, small, large: ("1", "2")),
    ],
)
def test_a_list_with_a_number_in_quotes(name: str, answer: Any) -> None:
    missing = refused(name, answer)
    assert missing.what.endswith(": this is text, not a number")
    assert "quotes" in missing.hint


def test_a_number_of_another_library_is_a_number() -> None:
    assert CHECKS["02/root-bytes"](lambda ranks, num_bytes: np.int64(num_bytes) * (ranks - 1))
    assert CHECKS["02/tree-steps"](lambda ranks: 2 * np.ceil(np.log2(np.float64(ranks))))
    assert CHECKS["02/ring-bytes"](lambda ranks, num_bytes: Fraction(2 * (ranks - 1) * num_bytes, ranks))
    assert CHECKS["02/chunks"](lambda n, p: np.array([len(part) for part in np.array_split(np.zeros(n), p)]))
    assert CHECKS["03/nccl"](np.int64(1 << 25))


# ---- lab 02
def test_half_of_the_tree_asks_for_the_way_back() -> None:
    half = refused("02/tree-steps", lambda ranks: (ranks - 1).bit_length())
    assert (half.what, half.hint) == (
        "on 2 ranks you say 1, the schedule has 2",
        "this counts the steps to rank 0; add the steps back",
    )
    rounded_down = refused("02/tree-steps", lambda ranks: 2 * (ranks.bit_length() - 1))
    assert rounded_down.hint == "each step halves the number of ranks that still send, rounded up"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda rank, step, ranks: ((rank + 1) % ranks, rank - step), "step 1: chunk -1; chunks are 0 to 1: use % ranks"),
        (lambda rank, step, ranks: (rank + 1, (rank - step) % ranks), "rank 1 sends to rank 2; ranks are 0 to 1: use % ranks"),
        (lambda rank, step, ranks: ((rank + 1) % ranks, rank / 2), "chunk 0.5; chunks are whole numbers: // instead of /"),
    ],
)
def test_a_ring_without_its_modulo(rule: Any, says: str) -> None:
    def build(ranks: int) -> Any:
        return [[(rank, *rule(rank, step, ranks), step < ranks - 1) for rank in range(ranks)] for step in range(2 * ranks - 2)]

    assert str(refused("02/my-ring", build)).endswith(says)


@pytest.mark.parametrize("wrong", [lambda p, n: 2 * (p - 1) * (n // p), lambda p, n: 2 * (p - 1) * n // p])
def test_ring_bytes_are_not_rounded(wrong: Any) -> None:
    missing = refused("02/ring-bytes", wrong)
    assert missing.what.startswith("for 40 bytes on 3 ranks you say 5")
    assert missing.what.endswith("on average it is 53.3333")
    assert "instead of //" in missing.hint


def test_sizes_that_are_no_whole_numbers() -> None:
    assert (
        refused("02/chunks", lambda elements, ranks: [elements / ranks] * ranks).hint
        == "sizes are whole numbers: // and % give them"
    )


def test_the_lab_shows_findings_of_two_kinds() -> None:
    shown: list[Any] = []
    names = {"check_schedule": check_schedule, "copied_ring": copied_ring, "schedule_of": schedule_of}
    exec(cells("02-how-it-works")["check-schedule"], {**names, "row": lambda *problems: shown.extend(problems)})
    assert {problem.check for problem in shown} == {"double", "end"}


# ---- words
@pytest.mark.parametrize(
    ("lab", "cell", "words"),
    [
        ("02-how-it-works", "ring-question", ("**reduce-scatter**", "**all-gather**")),  # the stepper's captions
        ("02-how-it-works", "stepper-remark", ("click into the picture",)),
        ("03-what-it-costs", "nccl-question", ("**protocol**", "**LL128**", "**channel**")),
        ("03-what-it-costs", "see-log-remark", ("**transport**", "P2P/IPC/read")),
        ("03-what-it-costs", "nccl-part", ("second part", "another day")),
    ],
)
def test_a_word_is_said_before_it_is_seen(lab: str, cell: str, words: tuple[str, ...]) -> None:
    text = cells(lab)[cell]
    assert [word for word in words if word not in text] == []


def test_the_glossary_has_the_words_of_the_log() -> None:
    text = (LABS.parent / "docs" / "glossary.md").read_text()
    assert [word for word in ("channel\n:", "protocol\n:", "transport\n:", "LL128", "P2P", "IPC") if word not in text] == []
