"""What a cell's result reads like: exact texts, folding, escaping, capping."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labkit.views import error_for, to_html, to_text
from labkit.views._output import output_groups
from labkit.views._text import LIMIT, fold
from labkit.wire import CallSite, CellResult, CodeError, Outcome, Shown, Stream


def printed(rank: int, text: str, name: str = "stdout") -> Outcome:
    return Outcome(rank, output=(Stream(name, text),))


def of(*outcomes: Outcome, cell: int = 3) -> CellResult:
    return CellResult(cell, outcomes)


def test_a_silent_cell_shows_nothing() -> None:
    result = of(*(Outcome(rank) for rank in range(4)))
    assert to_text(result) == to_html(result) == ""


def test_blank_output_is_silence() -> None:
    assert to_text(of(printed(0, "\n\n"), printed(1, ""))) == ""


def test_the_same_output_is_said_once() -> None:
    assert to_text(of(*(printed(rank, "hello\n") for rank in range(4)))) == "all 4 ranks\n  hello"


def test_some_ranks_share_output() -> None:
    result = of(*(printed(rank, "odd\n" if rank == 2 else "same\n") for rank in (3, 2, 1, 0)))
    assert to_text(result) == "ranks 0, 1 and 3\n  same\nrank 2\n  odd"


def test_the_value_counts_for_folding_as_well() -> None:
    outcomes = [Outcome(rank, output=(Stream("stdout", "a\n"),), shown=Shown(str(rank // 2))) for rank in range(4)]
    assert to_text(of(*outcomes)) == "ranks 0 and 1\n  a\n  0\nranks 2 and 3\n  a\n  1"


def test_one_rank_is_called_by_its_name() -> None:
    assert to_text(of(printed(0, "hi"))) == "rank 0\n  hi"


def test_a_part_of_the_world_is_not_all_of_it() -> None:
    assert to_text(of(printed(0, "hi"), printed(2, "hi"))) == "ranks 0 and 2\n  hi"


def test_silent_ranks_are_not_listed() -> None:
    assert to_text(of(printed(0, "hi"), Outcome(1))) == "rank 0\n  hi"


def test_pieces_of_one_stream_are_joined_and_stderr_is_marked() -> None:
    outcome = Outcome(1, output=(Stream("stdout", "a"), Stream("stdout", "b\n"), Stream("stderr", "careful\nplease\n")))
    assert to_text(of(outcome)) == "rank 1\n  ab\n  stderr | careful\n  stderr | please"


def test_an_exception_on_all_ranks_is_said_once(samples: Any) -> None:
    expected = "all 4 ranks: ZeroDivisionError: division by zero (cell 3, line 2)\n    y = 1 / 0"
    assert to_text(of(*(samples.raised(rank) for rank in range(4)))) == expected


def test_an_exception_names_its_rank_and_comes_after_the_output(samples: Any) -> None:
    result = of(printed(0, "fine\n"), Outcome(1, status="error", output=(Stream("stdout", "x\n"),), error=samples.ZERO))
    expected = "rank 0\n  fine\nrank 1\n  x\nrank 1: ZeroDivisionError: division by zero (cell 3, line 2)\n    y = 1 / 0"
    assert to_text(result) == expected


def test_different_exceptions_stay_apart() -> None:
    def at(line: int) -> CodeError:
        return CodeError("ValueError", "no", CallSite("cell 3", line))

    result = of(*(Outcome(rank, status="error", error=at(1 + rank % 2)) for rank in range(4)))
    expected = "ranks 0 and 2: ValueError: no (cell 3, line 1)\nranks 1 and 3: ValueError: no (cell 3, line 2)"
    assert to_text(result) == expected


def test_a_message_of_many_lines_is_cut_to_its_first() -> None:
    result = of(Outcome(0, status="error", error=CodeError("RuntimeError", "first\nsecond")))
    assert to_text(result) == "rank 0: RuntimeError: first"
    assert to_text(of(Outcome(0, status="error", error=CodeError("KeyboardInterrupt", "")))) == "rank 0: KeyboardInterrupt"


def test_a_hung_cell_says_why_and_what_was_done(samples: Any) -> None:
    assert to_text(samples.hung()) == (
        "rank 0\n"
        "  before\n"
        "all 4 ranks: no answer by the deadline\n"
        "LK002: rank 2 called broadcast (cell 7, line 3) while ranks 0, 1 and 3 wait in\n"
        "   all_reduce #5 (cell 7, line 5).\n"
        "  rank 2: called broadcast #5 (cell 7, line 3)\n"
        "      dist.broadcast(x, 0)\n"
        "  ranks 0, 1 and 3: wait in all_reduce #5 (cell 7, line 5)\n"
        "      dist.all_reduce(x)\n"
        "Next: call the same collective on every rank, in the same order.\n"
        "Recovered in under a second: freed ranks 0, 1 and 3; every process and variable\n   kept."
    )


def test_the_source_comes_from_the_evidence_if_the_traceback_has_none(samples: Any) -> None:
    error = CodeError("ValueError", "no", CallSite("cell 7", 3))
    result = CellResult(7, (Outcome(2, status="error", error=error),), samples.hung().diagnosis)
    assert to_text(result).startswith("rank 2: ValueError: no (cell 7, line 3)\n    dist.broadcast(x, 0)\n")


def test_a_cell_that_only_takes_longer_says_where_its_ranks_were() -> None:
    result = dataclasses.replace(of(Outcome(0, status="late"), Outcome(1)), standing="rank 0 was in Python (cell 7, line 2)")
    assert to_text(result).splitlines() == [
        "rank 0: no answer by the deadline",
        "At the deadline rank 0 was in Python (cell 7, line 2). The cell may only be",
        "   slow, or it may never end.",
        "Next: `%%ranks --deadline 60` gives a cell more time; world.recover() frees the",
        "   ranks.",
    ]
    assert "rank 0 was in Python (cell 7, line 2)" in str(result)
    assert "At the deadline rank 0" in to_html(result)
    assert "<code>%%ranks --deadline 60</code>" in to_html(result)
    assert "; `%%ranks --deadline 60` gives a cell more time" in str(error_for(result))


def test_every_way_not_to_answer_has_words() -> None:
    result = of(*(Outcome(rank, status=status) for rank, status in enumerate(("late", "dead", "interrupted", "stuck"))))
    assert to_text(result) == (
        "rank 0: no answer by the deadline\nrank 1: the process is gone\n"
        "rank 2: interrupted\nrank 3: no answer, and none will come"
    )


def test_unicode_stays_and_html_is_escaped() -> None:
    text = "ünï 漢字 🎉 <script>alert(\"x\")</script> & 'q'\n"
    result = of(printed(0, text), Outcome(1, status="error", error=CodeError("<b>Error", "<img src=x>", None, "<i>trace")))
    assert "ünï 漢字 🎉 <script>" in to_text(result)
    html = to_html(result)
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>Error" not in html
    assert "<i>trace" not in html
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#x27;q&#x27;" in html


def test_html_of_a_rank_is_not_trusted() -> None:
    html = to_html(of(Outcome(0, shown=Shown("a frame", html="<script>steal()</script>"))))
    assert "a frame" in html
    assert "steal" not in html


def test_colours_and_progress_bars_end_as_a_terminal_would_show_them() -> None:
    result = of(printed(0, "\x1b[31mred\x1b[0m\n 10%|#   |\r100%|####|\nlong line\rshort\r\nend\x07\n"))
    assert to_text(result) == "rank 0\n  red\n  100%|####|\n  shortline\n  end\ufffd"


def test_sixteen_ranks_in_order() -> None:
    lines = to_text(of(*(printed(rank, f"r{rank}\n") for rank in reversed(range(16))))).splitlines()
    assert lines == [line for rank in range(16) for line in (f"rank {rank}", f"  r{rank}")]
    assert to_text(of(*(printed(rank, "same") for rank in range(16)))) == "all 16 ranks\n  same"


def test_huge_output_is_capped() -> None:
    text = to_text(of(printed(0, "x" * (LIMIT + 1_234)), printed(1, "short")))
    assert text.endswith("\n  ... 1,234 more characters printed\nrank 1\n  short")
    assert len(text) < LIMIT + 200


def test_many_pieces_share_one_cap_and_the_value_survives() -> None:
    pieces = tuple(Stream(("stdout", "stderr")[i % 2], "y" * 3_000) for i in range(10))
    text = to_text(of(Outcome(0, output=pieces, shown=Shown("42"))))
    assert text.count("y") == LIMIT
    assert text.endswith("... 10,000 more characters printed\n  42")


def test_a_value_that_the_rank_cut_says_how_to_get_the_rest() -> None:
    assert (
        to_text(of(Outcome(0, shown=Shown("abc", cut=5)))) == "rank 0\n  abc\n  ... 5 more characters; world.pull gets the rest"
    )


@given(st.dictionaries(st.integers(0, 40), st.text("ab", max_size=2), max_size=16))
def test_folding_names_every_rank_once(words: dict[int, str]) -> None:
    groups = fold(words.items(), key=str)
    assert sorted(rank for ranks, _ in groups for rank in ranks) == sorted(words)
    assert [ranks[0] for ranks, _ in groups] == sorted(ranks[0] for ranks, _ in groups)
    assert all(words[rank] == word for ranks, word in groups for rank in ranks)


@given(st.lists(st.tuples(st.text("ab\n", max_size=3), st.sampled_from(["", "1", "2"])), min_size=1, max_size=16))
def test_output_groups_hold_all_ranks_that_said_something(said: list[tuple[str, str]]) -> None:
    outcomes = [Outcome(rank, output=(Stream("stdout", t),), shown=Shown(v) if v else None) for rank, (t, v) in enumerate(said)]
    grouped = [rank for ranks, _ in output_groups(outcomes) for rank in ranks]
    assert sorted(grouped) == [rank for rank, (t, v) in enumerate(said) if t.strip("\n") or v]


@given(st.text(max_size=60))
def test_any_text_is_escaped(text: str) -> None:
    html = to_html(of(printed(0, text), Outcome(1, status="error", error=CodeError("E", text))))
    body = html.partition("</style>")[2]
    tags = {tag.split()[0].strip("/") for tag in (piece.partition(">")[0] for piece in body.split("<")[1:])}
    assert tags <= {"div", "section", "pre", "p", "details", "summary", "code"}


def test_a_cell_after_which_the_ranks_were_recovered_does_not_tell_to_recover(samples: Any) -> None:
    hung = samples.hung()
    verdict = dataclasses.replace(hung.diagnosis.verdict, next_step="Fix the line. world.recover() brings the ranks back.")
    told = dataclasses.replace(hung, diagnosis=dataclasses.replace(hung.diagnosis, verdicts=(verdict,)))
    assert "world.recover()" not in to_text(told)
    assert "Next: Fix the line.\n" in to_text(told)
    assert "world.recover()" in to_text(dataclasses.replace(told, recovery=None))


def test_what_only_followed_is_short_and_comes_after_the_cause() -> None:
    echo = "[/a/pair.cc:545] Read error [127.0.0.1]:{}: Connection reset by peer. This may be a crash. Check the logs."
    site = CallSite("cell 3", 4)
    outcomes = (
        Outcome(0, "error", error=CodeError("RuntimeError", echo.format(38571), site)),
        Outcome(1, "error", error=CodeError("ValueError", "bad batch", CallSite("cell 3", 3))),
        Outcome(2, "error", error=CodeError("RuntimeError", echo.format(20694), site)),
    )
    text = to_text(CellResult(3, outcomes, world_size=3))
    assert text.index("rank 1: ValueError: bad batch") < text.index("ranks 0 and 2: RuntimeError: Read error: Connection reset")
    assert "pair.cc" not in text
