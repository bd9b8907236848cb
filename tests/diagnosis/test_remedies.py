"""The remedy fits the cause: what a verdict says to do next, for causes that one rule has in common."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.diagnosis import judge
from labkit.wire import CallSite, CodeError, Evidence

from .build import world
from .cells import run_cells
from .corpus import cases

CASES = {case.name: case for case in cases()}
PAIRS = {"ab": (0, 1), "cd": (2, 3), "alone": (0,)}
STARTED = "Expected to have finished reduction in the prior iteration: no gradient came to head.weight"


def remedy(evidence: Evidence) -> str:
    (verdict,) = judge(evidence)
    return verdict.next_step


@pytest.mark.parametrize(
    ("script", "differ"),
    [
        ("ng1%ab ng1%cd", {3: "ng1%cd ng1%ab"}),
        ("ng1%ab ng2%cd", {3: "ng2%cd ng1%ab"}),
        ("ng1%ab ng2%alone", {1: "ng2%alone ng1%ab"}),
    ],
)
def test_groups_in_another_order_are_not_taken_out_of_a_branch(script: str, differ: dict[int, str]) -> None:
    said = remedy(world(script, differ, groups=PAIRS).run().evidence())
    assert "in one order" in said
    assert "branch" not in said


def test_a_group_made_in_a_branch_is_taken_out_of_it() -> None:
    source = "if rank == 0:\n    dist.new_group([0])\ndist.new_group([0, 1])"
    said = remedy(world("ng3%ab", {0: "ng2%alone ng3%ab"}, 2, groups=PAIRS, source=source).run().evidence())
    assert "take it out of the branch" in said


@pytest.mark.parametrize(
    "source",
    [
        "dist.all_reduce()\nif rank == 0:\n    dist.barrier()",
        "def log():\n    if rank == 0:\n        dist.barrier()\nfor step in range(2):\n    dist.all_reduce()\nlog()",
    ],
)
def test_of_two_ranks_the_branch_around_the_last_call_is_shown(source: str) -> None:
    said = remedy(run_cells(source, ranks=2).evidence())
    assert "`if rank == 0:`" in said
    assert "on every rank, or on none" in said


@pytest.mark.parametrize("with_flag", [False, True])
def test_a_flag_that_is_set_is_no_remedy(with_flag: bool) -> None:
    message = STARTED + " (find_unused_parameters=True is set)" * with_flag
    error = CodeError("RuntimeError", message, CallSite("cell 7", 2))
    seen = world("ar1 ar2", {1: "ar1 raise2"}).run().but(1, error=error).evidence()
    assert ("find_unused_parameters=True" in remedy(seen)) is not with_flag
    assert "head.weight, so" in judge(seen)[0].sentence


def test_calls_of_different_threads_say_so() -> None:
    assert "(log, the main thread)" in remedy(CASES["a thread waits for one who went on"].evidence)
    assert "from different threads" not in remedy(CASES["order"].evidence)


def test_calls_of_one_thread_that_differ_are_no_race() -> None:
    """A thread that catches a refusal and goes on crosses nobody: the other rank has made that call before."""
    seen = CASES["safe: a pool of threads"].evidence
    one, two = seen.ranks
    alone = replace(seen, ranks=(one, replace(two, calls=two.calls[:1])))
    assert [verdict.code for verdict in judge(alone)] == ["LK005"]


REDUCE = "dist.reduce(loss, root=0)\n"
THEN = "{late}:\n    dist.broadcast()\ndist.barrier()"
ROOTED = {
    "read at once": f"{REDUCE}if loss > 9 or {THEN}",
    "by way of another name": f"{REDUCE}mean = loss / 3\nif mean > 9 or {THEN}",
    "in a helper": f"def sync(x):\n    dist.reduce(x, root=0)\n    return x\ntotal = sync(1)\nif total > 9 or {THEN}",
    "in the condition": "def stop(x):\n    dist.reduce(x, root=0)\n    return {late}\n" + THEN.replace("{late}", "if stop(1)"),
    "in arms": f"{REDUCE}if loss > 9 or {THEN}".replace("\ndist.barrier", "\nelse:\n    dist.barrier"),
    "before a break": "for step in range(3):\n    dist.reduce(loss, root=0)\n    if loss > 9 or {late}:\n        break\n"
    "    dist.barrier()",
}


@pytest.mark.parametrize("name", ROOTED)
def test_a_branch_on_what_only_the_root_has_names_the_reduce(name: str) -> None:
    said = remedy(run_cells("loss = 3\n" + ROOTED[name].format(late="rank == 0"), ranks=3).evidence())
    assert "is right on rank 0 alone: reduce #" in said
    assert "use all_reduce" in said


@pytest.mark.parametrize(
    "source",
    [
        "dist.reduce(loss, root=0)\nif rank == 0:\n    dist.broadcast()\ndist.barrier()",
        "dist.all_reduce(loss)\nif loss > 9 or rank == 0:\n    dist.broadcast()\ndist.barrier()",
        "loss = other\ndist.reduce(loss, root=0)\nif other > 9 or rank == 0:\n    dist.broadcast()\ndist.barrier()",
    ],
)
def test_a_branch_on_something_else_does_not(source: str) -> None:
    assert "alone" not in remedy(run_cells("loss = other = 3\n" + source, ranks=3).evidence())
