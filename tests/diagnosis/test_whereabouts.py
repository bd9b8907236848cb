"""Where ranks are that only take longer: folded by place, a call without its number, Python by its line."""

from __future__ import annotations

from dataclasses import replace

from labkit.diagnosis import unfinished, whereabouts
from labkit.diagnosis.where import place
from labkit.wire import Call, CallSite, CodeError, Evidence, Frame, RankView


def view(rank: int, line: int = 0, op: str = "", number: int = 1) -> RankView:
    site = CallSite("cell 4", line) if line else None
    calls = (Call(number, number, op, site=site),) if op else ()
    return RankView(rank, calls=calls, stack=(Frame("cell 4", line, "<module>"),) if line and not op else ())


def test_ranks_at_one_place_are_told_together() -> None:
    ranks = (view(0, 2, "all_reduce", 7), view(1, 2, "all_reduce", 8), view(2, 3), view(3))
    said = whereabouts(Evidence(4, ranks=ranks), range(4))
    assert (
        said == "ranks 0 and 1 were in all_reduce (cell 4, line 2); rank 2 was in Python at cell 4, line 3; rank 3 was in Python"
    )


def test_only_who_is_asked_for() -> None:
    assert whereabouts(Evidence(2, ranks=(view(0, 2), view(1, 2))), [1]) == "rank 1 was in Python at cell 4, line 2"
    assert whereabouts(Evidence(2), [0, 1]) == ""


TORCH = "/lib/python3.11/site-packages/torch/"


def deep(*frames: tuple[str, int, str]) -> RankView:
    return RankView(2, stack=tuple(Frame(*frame, users=not frame[0].startswith("/lib")) for frame in frames))


def test_in_a_function_it_is_named_with_the_way_to_it() -> None:
    view = deep(("cell 1", 10, "<module>"), ("cell 1", 8, "prepare"), ("cell 1", 8, "<listcomp>"), ("cell 1", 4, "tokenize"))
    assert place(view) == "in tokenize (cell 1, line 4), reached through lines 10 and 8"


def test_in_a_library_its_function_and_the_learners_line_are_named() -> None:
    calls = [
        (TORCH + "nn/modules/module.py", 1501, "Module._call_impl"),
        (TORCH + "nn/modules/container.py", 3, "Sequential.forward"),
    ]
    view = deep(("cell 7", 8, "<module>"), *calls * 12, (TORCH + "nn/modules/linear.py", 125, "Linear.forward"))
    assert place(view) == "in forward of Linear, called at cell 7, line 8"


def test_of_several_libraries_the_one_that_was_called_is_named() -> None:
    view = deep(
        ("train.py", 9, "Trainer.fit"), (TORCH + "utils/data/dataloader.py", 630, "_BaseDataLoaderIter.__next__"),
        ("/lib/python3.11/multiprocessing/connection.py", 257, "poll"),
    )  # fmt: skip
    assert place(view) == "in __next__ of _BaseDataLoaderIter, called in Trainer.fit (train.py, line 9)"


def test_a_line_of_the_learners_own_file_counts() -> None:
    view = deep(("cell 3", 2, "<module>"), ("/home/me/utils.py", 7, "load"))
    assert place(view) == "in load (utils.py, line 7), reached through line 2 of cell 3"


def test_for_how_long_nobody_has_moved_is_said() -> None:
    moved = tuple(replace(view(rank, 2), last_progress_s=100.0 + rank) for rank in range(2))
    assert whereabouts(Evidence(2, ranks=moved, taken_s=106.0), [0]).endswith("line 2; no rank has made a call for 5.00 s")
    assert "no rank has" not in whereabouts(Evidence(2, ranks=moved, taken_s=101.5), [0])


def test_a_world_is_only_over_when_no_rank_runs_and_none_has_raised() -> None:
    ranks = (replace(view(0, 5), activity="cell"), RankView(1, error=CodeError("KeyError", "'y'")))
    assert unfinished(Evidence(2, ranks=ranks)) == "rank 0 is in Python at cell 4, line 5"
    assert unfinished(Evidence(2, ranks=ranks[1:])) == "the last cell of rank 1 ended with KeyError: 'y'"
    assert unfinished(Evidence(2, ranks=(RankView(0), RankView(1)))) == ""
