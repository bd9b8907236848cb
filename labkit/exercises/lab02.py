"""Lab 02, how it works: counts of the naive way, a tree and a ring, sizes that do not divide, and live runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import join_ranks
from ..schedule import ALGORITHMS, Totals, count
from ..schedule.collective import Layout
from ..schedule.records import Comparison, ScheduleRun
from ..units import format_bytes, is_number
from ..wire import TensorTable
from ._base import Case, NotYet, as_number, check, function, heard, hold, no_text, right, rows
from .guess import Answer, Found
from .lab02_rings import whole_run

NUM_BYTES = 4096  # of the tensor in the lab's questions


# ---- naive
@check("02/naive")
def naive(totals: Any) -> Found:
    """The counts of the naive schedule."""
    sent = _counts(totals, "naive").by_rank.sent_bytes.tolist()
    size = len(sent)
    if totals.num_steps != 2 * (size - 1) or sent[0] != (size - 1) * min(sent):
        raise NotYet("these are not the counts of the naive schedule", hint='make it with ALGORITHMS["naive"].schedule(4)')
    says = f"{totals.num_steps} steps, one after the other; rank 0 sends {sent[0]} bytes, every other rank {sent[1]}."
    return Found(says, Answer(sent[0], "bytes"))


@check("02/root-bytes")
def root_bytes(answer: Callable[[int, int], float]) -> str:
    """What rank 0 sends in the naive schedule."""
    return _formula(
        answer,
        "naive",
        lambda totals: int(totals.by_rank.sent_bytes[0]),
        "in the second half, rank 0 sends the whole tensor to how many ranks?",
    )


# ---- tree
@check("02/tree")
def tree(totals: Any) -> Found:
    """The counts of the tree."""
    size = len(_counts(totals, "tree").by_rank.sent_bytes)
    if totals.num_steps != 2 * (size - 1).bit_length():
        raise NotYet(
            f"a tree does not take {totals.num_steps} steps on {size} ranks",
            hint='make it with ALGORITHMS["binomial-tree"].schedule(8)',
        )
    says = f"{totals.num_steps} steps on {size} ranks; the naive way has {2 * (size - 1)}."
    return Found(says, Answer(totals.num_steps, "steps"))


@check("02/tree-steps")
def tree_steps(answer: Callable[[int], float]) -> str:
    """The steps of the tree, for any number of ranks."""
    function(answer, 1)
    steps = ALGORITHMS["binomial-tree"].num_steps
    cases: list[Case] = [
        (f"on {ranks} rank{'s' if ranks > 1 else ''}", (ranks,), steps(ranks)) for ranks in (1, *range(2, 18), 64, 1000)
    ]
    hint = "each step halves the number of ranks that still send, rounded up"
    if right(answer, cases, times=2):
        hint = "this counts the steps to rank 0; add the steps back"
    tried = hold(answer, cases, hint, said="{:.10g}".format, truth="the schedule has")
    return f"right for {tried} worlds: 1,000 ranks need {steps(1000)} steps."


# ---- ring
@check("02/ring")
def ring(totals: Any) -> Found:
    """The counts of the ring."""
    sent = _counts(totals, "ring").by_rank.sent_bytes.tolist()
    size = len(sent)
    if totals.num_steps != 2 * (size - 1) or len(set(sent)) != 1 or sent[0] * size != 2 * (size - 1) * NUM_BYTES:
        raise NotYet(
            "these are not the counts of a ring of 1024 floats", hint='ALGORITHMS["ring"].schedule(4), and count(ring, 1024)'
        )
    return Found(f"{totals.num_steps} steps, and every rank sends {sent[0]} bytes: there is no root.", Answer(sent[0], "bytes"))


@check("02/ring-bytes")
def ring_bytes(answer: Callable[[int, int], float]) -> str:
    """What each rank sends in a ring; of a size that does not divide, what it sends on average."""
    says = _formula(answer, "ring", lambda totals: int(totals.by_rank.sent_bytes[0]), "how many steps, and how large is a chunk?")
    uneven: list[Case] = []
    for ranks, elements in ((3, 10), (7, 9)):
        sent = count(ALGORITHMS["ring"].schedule(ranks), elements).by_rank.sent_bytes.tolist()
        uneven.append((f"for {4 * elements} bytes on {ranks} ranks", (ranks, 4 * elements), sum(sent) / ranks))
    hold(answer, uneven, "use n/p without rounding: / instead of //", said="{:.6g}".format, truth="on average it is")
    return says


# ---- sizes that do not divide
@check("02/chunks")
def chunks(answer: Callable[[int, int], Sequence[int]]) -> str:
    """A function that cuts n elements into chunks without padding."""
    function(answer, 2)
    cases = [(10, 4), (12, 4), (3, 4), (1, 3), (0, 2), (17, 5), (1001, 8), (7, 1)]
    for elements, ranks in cases:
        got = _sizes(answer(elements, ranks), f"for {elements} elements on {ranks} ranks you give")
        here = f"{elements} elements on {ranks} ranks: {got}"
        if len(got) != ranks or sum(got) != elements:
            raise NotYet(here, hint=f"give {ranks} sizes that add up to {elements}, without padding")
        if max(got) - min(got) > 1:
            raise NotYet(here, hint="the largest chunk sets the time of a step: sizes may differ by at most one")
        if got != Layout(elements, ranks).sizes().tolist():
            raise NotYet(here, hint="all ranks must agree where a chunk begins: put the longer chunks first")
    return f"right in {len(cases)} cases, also with fewer elements than ranks."


def _sizes(given: Any, where: str) -> list[int]:
    """A learner's list of sizes; NotYet if it is none, or not of whole numbers."""
    no_text(where, given)
    try:
        sizes = [as_number(size) for size in given]
    except TypeError:
        raise NotYet(f"{where} {heard(given)}", hint="return a list of sizes") from None
    for size in sizes:
        no_text(f"{where} a list with", size)
        if not is_number(size) or size != int(size):
            raise NotYet(f"{where} {sizes}", hint="sizes are whole numbers: // and % give them")
    return [int(size) for size in sizes]


@check("02/uneven")
def uneven(run: Any) -> str:
    """The ring on live ranks with a size that does not divide."""
    whole_run(run)
    if run.num_elements % run.world_size == 0:
        raise NotYet(f"{run.num_elements} elements divide evenly by {run.world_size}", hint="take one more element")
    sent = sorted({each.sent_bytes for each in run.ranks})
    return f"{run.num_elements} elements on {run.world_size} ranks, exact; a rank sends {' or '.join(map(str, sent))} bytes."


# ---- without chunks
@check("02/unchunked")
def unchunked(without: ScheduleRun, chunked: ScheduleRun) -> Found:
    """Two rings with one result; one moves p / 2 times as much."""
    for run, name in ((without, "unchunked-ring"), (chunked, "ring")):
        whole_run(run)
        if run.name != name:
            raise NotYet(f"this is a run of {run.name}", hint=f"pass it a run of {name} in this place")
    if without.num_bytes != chunked.num_bytes:
        raise NotYet("the two runs have different sizes", hint="run both cells again")
    most, few = (sum(each.sent_bytes for each in run.ranks) for run in (without, chunked))
    times = f"{most / few:.3g} times more on {without.world_size} ranks"
    says = f"both are right; {format_bytes(most)} were sent against {format_bytes(few)}: {times}."
    return Found(says, Answer(most / few, "times as many"))


# ---- on live ranks
@check("02/by-hand")
def by_hand(mine: TensorTable, library: TensorTable) -> str:
    """Sends and receives written out, against the library's all-reduce."""
    ours, theirs = rows(mine), rows(library)
    differ = [rank for rank, values in theirs.items() if ours.get(rank) != values]
    if differ:
        raise NotYet(f"they differ on {join_ranks(differ)}", hint="run the cell above again, on all ranks")
    size = len(theirs)
    if list(theirs[0]) != [place * size * (size + 1) / 2 for place in range(len(theirs[0]))]:
        raise NotYet("this is not the sum", hint="run the cell above again, on all ranks")
    return f"the same as the library's result, bit by bit: {size} ranks, {len(theirs[0])} elements."


@check("02/live")
def live(runs: Sequence[ScheduleRun], comparison: Any) -> Found:
    """Naive, tree and ring by point-to-point sends: each gives what the library gives, as declared; and their times."""
    names = {"naive", "binomial-tree", "ring"}
    for run in runs:
        whole_run(run)
    missing = names - {run.name for run in runs}
    if missing:
        raise NotYet(f"{sorted(missing)[0]} did not run", hint="run naive, binomial-tree and ring")
    if not isinstance(comparison, Comparison) or not names <= {timing.name for timing in comparison.timings}:
        raise NotYet("this is not a comparison of the three", hint='world.compare(["naive", "binomial-tree", "ring"])')
    first = min((timing for timing in comparison.timings if timing.name in names), key=lambda timing: timing.median_s)
    says = f"{len(runs)} algorithms gave the library's result; the fastest here was {first.name}."
    return Found(says, Answer(first.name, also=("tree",) if first.name == "binomial-tree" else ()))


# ---- shared
def _counts(totals: Any, name: str) -> Totals:
    if not isinstance(totals, Totals):
        raise NotYet(f"this check needs counts, not {type(totals).__name__}", hint=f"pass it count({name}, 1024)")
    return totals


def _formula(answer: Callable[[int, int], Any], name: str, truth: Callable[[Totals], int], hint: str) -> str:
    tried = [(ranks, 64 * ranks) for ranks in (*range(2, 18), 64)]
    cases = (
        (f"for {4 * n} bytes on {ranks} ranks", (ranks, 4 * n), truth(count(ALGORITHMS[name].schedule(ranks), n)))
        for ranks, n in tried
    )
    number = hold(answer, cases, hint, said="{:.10g}".format, truth="the schedule counts")
    return f"right for {number} schedules, from 2 to 64 ranks."
