"""What a verdict says to look at: the branch, loop or jump that can really differ between ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.calls import Aspect, parties
from labkit.diagnosis import judge
from labkit.vocabulary import CallState, ProcessState
from labkit.wire import Call, Evidence, Verdict

from .cells import CELL, run_cells

ONE_LINE_IF = """def log(metric):
    for part in (1, 2):
        dist.all_reduce(part)
def on_main(f):
    return f(8) if rank == 0 else None
on_main(log)
dist.barrier()
"""
TREE = """def tree(node):
    if isinstance(node, dict):
        return [tree(node[key]) for key in sorted(node)]
    dist.all_reduce(8)
tree({"a": 1, "b": {"c": 1, "d": 2} if rank != 1 else {"c": 1}})
dist.barrier()
"""
BREAK = """for epoch in range(4):
    for _ in range(2):
        dist.all_reduce(8)
    if rank == 1 and epoch == 1:
        print("stop")
        break
dist.barrier()
"""
RETURN = """def norm(grads):
    if not grads:
        return 0
    dist.all_reduce(8)
for step in range(3):
    norm([] if rank == 1 and step == 1 else [1])
    dist.broadcast(4)
"""


def first(source: str) -> Verdict:
    return judge(run_cells(source).evidence())[0]


@pytest.mark.parametrize(
    ("source", "said", "innocent"),
    [
        (ONE_LINE_IF, f"`return f(8) if rank == 0 else None` (cell {CELL}, line 5)", "for part"),
        (TREE, f"the number of passes of `return [tree(node[key]) for key in sorted(node)]` (cell {CELL}, line 3)", "isinstance"),
        (BREAK, f"`if rank == 1 and epoch == 1:` (cell {CELL}, line 4), which leads to `break` (cell {CELL}, line 6)", "for _"),
        (RETURN, f"`if not grads:` (cell {CELL}, line 2), which leads to `return 0` (cell {CELL}, line 3)", "for step"),
    ],
)
def test_the_remedy_shows_what_can_differ(source: str, said: str, innocent: str) -> None:
    found = first(source)
    assert said in found.next_step
    assert innocent not in found.next_step


def test_a_break_that_made_a_rank_finish_is_shown() -> None:
    found = first("for step in range(4):\n    dist.all_reduce(8)\n    if rank == 2 and step == 1:\n        break\n")
    assert (found.code, found.culprits) == ("LK007", (2,))
    assert f"`if rank == 2 and step == 1:` (cell {CELL}, line 3)" in found.next_step


def test_a_loop_whose_passes_are_written_down_is_no_reason() -> None:
    skips = "rank == 1 and step == 1"
    source = f"for step in range(3):\n    with skip:\n        0 if {skips} else dist.all_reduce(8)\ndist.barrier()"
    found = first(f"import contextlib\nskip = contextlib.nullcontext()\n{source}")
    assert "number of passes" not in found.next_step


def test_a_reduce_op_that_is_not_known_fits_any() -> None:
    known, unknown = Call(1, 1, "all_reduce", reduce_op="sum"), Call(1, 1, "all_reduce")
    assert parties({0: known, 1: unknown})[0] is Aspect.NONE
    assert parties({0: known, 1: replace(known, reduce_op="max"), 2: unknown})[0] is Aspect.ROOT


def killed(evidence: Evidence, rank: int, exit_code: int) -> Evidence:
    views = [
        replace(view, process=ProcessState.DEAD, exit_code=exit_code, calls=(*view.calls[:-1], open_again(view.calls[-1])))
        if view.rank == rank
        else view
        for view in evidence.ranks
    ]
    return replace(evidence, ranks=tuple(views))


def open_again(call: Call) -> Call:
    return replace(call, state=CallState.ISSUED, returned_s=0.0)


def test_a_segmentation_fault_inside_of_mismatched_calls_has_the_first_one_as_its_cause() -> None:
    source = "for step in range(4):\n    if not (rank == 2 and step == 1):\n        dist.all_reduce(8)\n    dist.all_reduce(9)\n"
    evidence = killed(run_cells(source).evidence(), 1, -11)
    verdicts = judge(evidence)
    assert [verdict.code for verdict in verdicts] != ["LK001"]
    assert "LK001" not in [verdict.code for verdict in verdicts]
    assert verdicts[0].culprits == (2,)


def test_a_rank_that_leaves_a_loop_early_and_goes_on_skipped_a_pass() -> None:
    source = "for epoch in range(2):\n    for x in range(4 - (rank == 2)):\n        dist.all_reduce(8)\n    dist.all_reduce(8)\n"
    found = first(source)
    assert (found.code, found.culprits) == ("LK009", (2,))
    assert found.sentence.startswith(f"rank 2 skipped all_reduce #4 (cell {CELL}, line 3)")
    assert f"the number of passes of `for x in range(4 - (rank == 2)):` (cell {CELL}, line 2)" in found.next_step
