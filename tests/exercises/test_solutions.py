"""Solutions are taken out, and nothing else."""

from __future__ import annotations

import pytest

from labkit.errors import UsageError, YourTurn
from labkit.labs import GUESS, RANK_STUB, STUB, strip, without_solutions

ONE = "### BEGIN SOLUTION\nguess = 7\n### END SOLUTION\nlab.predict('a', guess)"


def test_a_guess_becomes_dots_and_any_other_solution_a_stub() -> None:
    assert strip(ONE) == f"{GUESS}\nlab.predict('a', guess)"
    assert strip(ONE.replace("guess = 7", "answer = 7")).splitlines()[0] == STUB
    assert strip(ONE.replace("guess = 7", "guess = 7\nguess += 1")).splitlines()[0] == STUB


@pytest.mark.parametrize("above", ["%%ranks 0", 'mended = """', "%%ranks\nfor step in range(2):"])
def test_what_ranks_run_does_not_ask_for_labkit(above: str) -> None:
    assert strip(f"{above}\n### BEGIN SOLUTION\nguess = 1\n### END SOLUTION") == f"{above}\n{RANK_STUB}"


def test_a_text_that_is_closed_is_no_text_for_ranks() -> None:
    assert strip(f'a = """x"""\n{ONE}').splitlines()[1] == GUESS


def test_the_stub_is_one_line_in_the_code_and_one_on_the_screen() -> None:
    import labkit

    with pytest.raises(YourTurn) as caught:
        exec(STUB, {"labkit": labkit})
    (line,) = caught.value._render_traceback_()
    assert line.startswith("YourTurn: your lines are missing here; write them in place of `raise labkit.errors.YourTurn`")


def test_the_stub_is_indented_like_the_mark() -> None:
    source = "def f():\n    ### BEGIN SOLUTION\n    if x:\n        return 1\n    ### END SOLUTION\n"
    assert strip(source) == f"def f():\n    {STUB}"


def test_what_has_no_solution_stays() -> None:
    assert strip("a = 1\n\nb = 2") == "a = 1\n\nb = 2"


@pytest.mark.parametrize(
    "source",
    ["### BEGIN SOLUTION\na", "a\n### END SOLUTION", "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION"],
)
def test_a_mark_without_partner_is_an_error(source: str) -> None:
    with pytest.raises(UsageError, match="without its partner"):
        strip(source)


def test_a_notebook_keeps_everything_else() -> None:
    code = {"cell_type": "code", "id": "a", "source": ONE.splitlines(keepends=True), "metadata": {"tags": ["exercise"]}}
    text = {"cell_type": "markdown", "id": "b", "source": "### BEGIN SOLUTION", "metadata": {}}
    learners = without_solutions({"cells": [code, text], "nbformat": 4})
    assert learners["nbformat"] == 4
    assert learners["cells"][1] is text
    assert learners["cells"][0]["metadata"] == {"tags": ["exercise"]}
    assert "guess = 7" not in "".join(learners["cells"][0]["source"])
    assert "guess = 7" in "".join(code["source"])
