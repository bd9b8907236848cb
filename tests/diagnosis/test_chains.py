"""A call skipped, made once more or swapped in helpers, loops, classes and files is found, with the lines where ranks part."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from labkit.diagnosis import judge
from labkit.wire import CallSite, CodeError, Verdict

from .build import world as mini_world
from .cells import run_cells

HELPER = "def mean(n):\n    dist.all_reduce(n)\n\n"
LOGS = HELPER + (
    "def logs(names):\n"
    "    for name in names:\n"
    "        mean(1)\n\n"
    "for step in range(3):\n"
    "    names = ['a', 'b', 'c']\n"
    "    if (rank, step) == (1, 1):\n"
    "        names.pop()\n"
    "    logs(names)\n"
    "    {last}\n"
)
SEG = {"seg.py": "def reduce_mean(n):\n    n = n + 0\n    dist.all_reduce(n)\n"}


def verdict(source: str, ranks: int = 3, after: bool = False, **more: object) -> Verdict:
    world = run_cells(source, ranks, **more)
    found = judge((world.cut() if after else world).evidence())
    assert len(found) == 1, found
    return found[0]


def said(found: Verdict) -> str:
    return " ".join([found.sentence, *(f"{side.did} ({side.site})" for side in found.sides), found.next_step])


SKIPS = {
    # name: (cell, what must be said, files)
    "a helper in a loop, then the same helper": (LOGS.format(last="mean(1)"), ("line 2", "line 12", "line 13", "since"), {}),
    "a helper in a loop, then another size": (LOGS.format(last="library(dist.all_reduce, 50)"), ("line 12", "line 13"), {}),
    "a helper in a loop, then another op": (LOGS.format(last="dist.barrier(0)"), ("line 12", "line 13"), {}),
    "a helper in a file": (
        "import seg\n".replace("import seg\n", "\n") + "for step in range(3):\n    if (rank, step) != (1, 1):\n"
        "        seg.reduce_mean(4)\n    seg.reduce_mean(4)\n",
        ("line 4", "line 5", "seg.py, line 3", "if (rank, step) != (1, 1):"),
        SEG,
    ),
    "a method of one object": (
        (
            "class Norm:\n    def forward(self):\n        dist.all_reduce(8)\n\na, b = Norm(), Norm()\n"
            "for frame in range(3):\n    a.forward()\n    if (rank, frame) != (1, 1):\n        b.forward()\n"
            "    library(dist.all_reduce, 8)\n"
        ),
        ("line 3", "line 7", "line 10", "if (rank, frame) != (1, 1):"),
        {},
    ),
    "a helper that returns early": (
        (
            "def log(n):\n    if n is None:\n        return\n    dist.all_reduce(n)\n\n"
            "for step in range(2):\n    log(1)\n    log(None if rank == 1 and step == 1 else 1)\n    dist.all_reduce(1)\n"
        ),
        ("line 4", "line 7", "line 9"),
        {},
    ),
    "fewer passes of an inner loop": (
        (
            "def epoch():\n    for batch in range(5 - (rank == 1)):\n        library(dist.all_reduce, 10)\n\n"
            "epoch()\ndist.barrier(0)\n"
        ),
        ("line 5", "line 6", "line 3", "number of passes of `for batch in range(5 - (rank == 1)):`"),
        {},
    ),
    "a comprehension": (
        HELPER + "for step in range(3):\n    [mean(1) for name in range(3 - (rank == 1 and step == 1))]\n    mean(1)\n",
        ("line 2", "line 5", "line 6"),
        {},
    ),
    "a generator": (
        (
            "def stream(n):\n    for i in range(n):\n        dist.all_reduce(4)\n        yield i\n\n"
            "for step in range(2):\n    list(stream(3 - (rank == 1)))\n    dist.all_reduce(4)\n"
        ),
        ("line 3", "line 7", "line 8"),
        {},
    ),
    "decorated": (
        (
            "def twice(f):\n    def run(n):\n        f(n)\n"
            "        if not (rank == 1 and n == 5):\n            f(n)\n    return run\n\n"
            "@twice\ndef mean(n):\n    dist.all_reduce(8)\n\nmean(4)\nmean(5)\nmean(6)\n"
        ),
        ("line 5", "line 3", "line 10"),
        {},
    ),
    "every pass has one less": (
        HELPER + "for step in range(4):\n    for name in range(3 - (rank == 1)):\n        mean(1)\n    mean(1)\n",
        ("line 6", "line 7"),
        {},
    ),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("name", SKIPS)
def test_a_skip_is_a_skip_wherever_it_hides(name: str, ranks: int, after: bool) -> None:
    source, words, files = SKIPS[name]
    found = verdict(source, ranks, after, files=files)
    assert (found.code, found.culprits) == ("LK009", (1,)), found.sentence
    assert "skipped" in found.sentence
    assert "on every rank, or on none" in found.next_step
    assert "shape" not in found.next_step
    for word in words:
        assert word in said(found), (word, said(found))


@pytest.mark.parametrize("name", SKIPS)
def test_with_two_ranks_it_is_the_same_story(name: str) -> None:
    source, words, files = SKIPS[name]
    found = verdict(source, 2, files=files)
    assert found.code == "LK009"
    assert 1 in found.culprits
    for word in words:
        assert word in said(found)


@pytest.mark.parametrize("name", SKIPS)
def test_safe_mode_tells_the_same(name: str) -> None:
    source, _, files = SKIPS[name]
    found = judge(run_cells(source, 3, files=files).refuse().evidence())[0]
    assert (found.code, found.culprits) == ("LK009", (1,)), found.sentence
    assert found.ending == "error"


EXTRAS = {
    "a branch on data, in a loop": (
        (
            "def save():\n    dist.all_gather(4)\n\nfor epoch in range(3):\n    dist.all_reduce(10)\n    loss = rank\n"
            "    if loss == 1 and epoch == 1:\n        save()\n"
        ),
        ("all_gather", "line 2", "line 8", "line 5", "if loss == 1 and epoch == 1:"),
    ),
    "a helper called once more": (
        HELPER + "for step in range(3):\n    mean(1)\n    if (rank, step) == (1, 1):\n        mean(1)\n    mean(1)\n",
        ("line 2", "line 7", "line 8", "if (rank, step) == (1, 1):"),
    ),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_call_is_told_with_what_decided_it(name: str) -> None:
    source, words = EXTRAS[name]
    found = verdict(source)
    assert (found.code, found.culprits) == ("LK009", (1,)), found.sentence
    assert "extra" in found.sentence
    for word in words:
        assert word in said(found), (word, said(found))


def test_since_when_results_are_wrong_is_said() -> None:
    found = verdict(LOGS.format(last="mean(1)"))
    assert re.search(r"from #7 on the wrong calls are matched, so the results are wrong since there", found.sentence), found


def test_nothing_is_called_wrong_if_the_first_call_that_differs_is_stuck() -> None:
    assert "wrong" not in verdict(LOGS.format(last="dist.barrier(0)")).sentence


def test_a_death_is_the_consequence_of_the_first_call_that_differs() -> None:
    world = run_cells(LOGS.format(last="library(dist.all_reduce, 50)"))
    (found,) = judge(world.but(0, process="dead", exit_code=-6).evidence())
    assert (found.code, found.culprits, found.ending) == ("LK009", (1,), "abort")
    assert "rank 0 died of it" in found.sentence


HEALTHY = {
    "a branch on the rank": "if rank == 0:\n    dist.all_reduce(8)\nelse:\n    dist.all_reduce(8)\ndist.barrier(0)\n",
    "a branch on the rank, in a loop": (
        "for i in range(6):\n    if i % world_size == rank:\n        dist.all_reduce(8)\n    else:\n        dist.all_reduce(8)\n"
    ),
    "two branches with helpers": (
        "def give():\n    dist.all_reduce(8)\n\ndef take():\n    dist.all_reduce(8)\n\n"
        "for i in range(4):\n    give() if i % 2 == rank % 2 else take()\n    dist.barrier(0)\n"
    ),
    "shadow calls of a rank that has ended": (
        "n = 5 - rank\nfor batch in range(n):\n    dist.all_reduce(1)\nwhile n < 5:\n    dist.all_reduce(1)\n    n += 1\n"
    ),
    "a match": (
        "match rank:\n    case 0:\n        dist.all_reduce(8)\n    case _:\n        dist.all_reduce(8)\ndist.barrier(0)\n"
    ),
    "two ifs": "if rank == 0:\n    dist.all_reduce(8)\nif rank != 0:\n    dist.all_reduce(8)\ndist.all_reduce(8)\n",
}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_legitimate_branch_is_healthy(name: str, ranks: int) -> None:
    world = run_cells(HEALTHY[name], ranks)
    assert judge(world.evidence()) == ()


@pytest.mark.parametrize("name", HEALTHY)
def test_another_fault_after_a_branch_is_not_called_a_skip(name: str) -> None:
    world = run_cells(HEALTHY[name] + "if rank == 1:\n    raise ValueError\ndist.barrier(0)\n")
    (found,) = judge(world.evidence())
    assert (found.code, found.culprits) == ("LK003", (1,)), found.sentence


def test_an_order_swap_by_a_loop_over_names_is_an_order_swap() -> None:
    source = (
        "calls = {'a': dist.all_reduce, 'b': dist.broadcast, 'c': dist.barrier}\n"
        "names = ['b', 'a', 'c'] if rank == 1 else ['a', 'b', 'c']\n"
        "for name in names:\n    calls[name](8)\n"
    )
    found = verdict(source)
    assert (found.code, found.culprits) == ("LK004", (1,)), found.sentence
    assert "same order" in found.next_step


def test_two_sizes_from_two_lines_are_two_calls() -> None:
    """The source lets no pass miss a line, so it may be a swap as well; the shape is not what has to be changed."""
    world = run_cells("dist.all_reduce(4)\ndist.all_reduce(8)\n")
    world.programs[1].reverse()
    again = replace(world, calls=[], at=[], counts=[]).run()
    (found,) = judge(again.evidence())
    assert (found.code, found.culprits) == ("LK004", (1,)), found.sentence
    assert "shape" not in found.next_step


ORDER = "sizes = {'acc': 1, 'loss': 4, 'lr': 2}\nfor name in NAMES:\n    dist.all_reduce(sizes[name])\n"


def test_one_line_with_tensors_in_another_order() -> None:
    found = verdict(ORDER.replace("NAMES", "sorted(sizes, reverse=rank == 1)"))
    assert (found.code, found.culprits) == ("LK005", (1,))
    assert "(cell 7, line 2) may go through the tensors in another order there" in found.sentence
    assert "in the same order" in found.next_step


def test_one_line_that_always_had_one_size_has_a_wrong_size() -> None:
    found = verdict("for step in range(4):\n    dist.all_reduce(8 - (step * rank == 2))\n")
    assert "the same shape and dtype on every rank" in found.next_step
    assert "order" not in str(found)


def test_two_sizes_in_two_arms_are_one_call_with_another_shape() -> None:
    found = verdict("if rank == 1:\n    dist.all_reduce(4)\nelse:\n    dist.all_reduce(8)\n")
    assert (found.code, found.culprits) == ("LK005", (1,))


METRICS = (
    "class Metric:\n    def __init__(self, values):\n        self.values = values\n\n    def compute(self):\n"
    "        if not self.values:\n            return None\n        dist.barrier(0)\n        dist.all_gather(1)\n\n"
    "metrics = [Metric([1]), Metric([]) if rank == 1 else Metric([2]), Metric([3])]\n"
    "for metric in metrics:\n    metric.compute()\n"
)


def test_passes_that_look_alike_are_counted_and_the_way_out_is_shown() -> None:
    found = verdict(METRICS)
    assert (found.code, found.culprits) == ("LK007", (1,))
    assert "Rank 1 made this call 2 times by way of cell 7, line 13 -> line 8, rank 0 3 times" in found.sentence
    assert "mixed up" in found.sentence
    assert "`return None` (cell 7, line 7)" in found.next_step


def test_both_calls_are_named_in_the_sentence() -> None:
    found = verdict(
        "def train():\n    for i in range(3 - (rank == 1)):\n        dist.all_reduce(4)\n\ntrain()\ndist.barrier(0)\n"
    )
    for word in ("all_reduce #3", "line 3", "train (from line 5)", "straight to barrier at line 6"):
        assert word in found.sentence, found.sentence


HANDLER = (
    "def save():\n    dist.broadcast(1)\n\ndef fit():\n    for batch in range(5):\n"
    "        if (rank, batch) == (1, 3):\n            raise KeyError('y')\n        dist.all_reduce(8)\n\n"
    "try:\n    fit()\nexcept KeyError:\n    save()\n    raise ValueError\n"
)


def test_a_rank_that_calls_from_its_handler_is_told_by_its_exception() -> None:
    """Without the exception it would be a skip, which is what the calls alone show."""
    world = run_cells(HANDLER)
    assert judge(world.evidence())[0].code == "LK009"
    error = CodeError("KeyError", "'y'", CallSite("cell 7", 7), own=True)
    (found,) = judge(world.but(1, handling=error, error=None).evidence())
    assert (found.code, found.culprits) == ("LK018", (1,)), found.sentence
    assert "KeyError: 'y'" in found.sentence


def test_a_skip_before_an_exception_is_still_the_first_cause() -> None:
    loop = "for step in range(2):\n    if (rank, step) != (1, 0):\n        dist.all_reduce(8)\n    dist.all_reduce(8)\n"
    error = CodeError("KeyError", "'y'", CallSite("cell 7", 5), own=True)
    (found,) = judge(run_cells(loop + "dist.barrier(0)\n").but(1, handling=error).evidence())
    assert (found.code, found.culprits) == ("LK009", (1,)), found.sentence


def test_a_beacon_that_has_lost_the_beginning_does_not_say_since_when() -> None:
    source = "for step in range(200):\n    if (rank, step) != (1, 2):\n        dist.all_reduce(8)\n    dist.all_reduce(8)\n"
    evidence = run_cells(source).evidence()
    short = tuple(replace(view, calls=view.calls[-256:]) for view in evidence.ranks)
    for found in judge(replace(evidence, ranks=short)):
        assert found.code == "LK009"
        assert "at the latest" in found.sentence


def test_the_box_and_the_headline_say_the_same_call() -> None:
    """Ranks count their calls by themselves: one number may be another call on another rank."""
    mine, others = "ar1%tp ar2 ar3", "ar2 ar3"
    world = mini_world("", {0: mine, 1: mine, 2: others, 3: others, 4: "ar3"}, 5, groups={"tp": (0, 1)}).run()
    (found,) = judge(world.evidence())
    assert (found.code, found.culprits) == ("LK009", (4,))
    assert "wait in all_reduce #2 (cell 7, line 3)" in found.sentence
    assert [side.did for side in found.sides if side.ranks == (0, 1, 2, 3)] == ["called all_reduce #1"]


def test_swapped_helpers_are_told_by_the_lines_that_differ() -> None:
    """Both calls are of one line in the end."""
    two = "def a():\n    mean(8)\n\ndef b():\n    mean(8)\n\n"
    source = HELPER + two + "for f in [b, a] if rank == 1 else [a, b]:\n    f()\n"
    found = verdict(source)
    assert (found.code, found.culprits) == ("LK008", (1,))
    assert "rank 1 ran line 8 before line 5" in found.sentence


def test_of_two_ranks_none_is_blamed_for_a_helper_that_is_called_often() -> None:
    step = "for s in range(3):\n    f()\n    if not (rank == 1 and s == 1):\n        f()\n    dist.all_reduce(8)\n"
    found = verdict("f = lambda: dist.all_reduce(8)\n" + step, 2)
    assert (found.code, found.culprits) == ("LK009", (0, 1))
