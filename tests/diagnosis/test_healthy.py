"""No verdict on a healthy world: hand-picked worlds, and hundreds of random ones stopped at any moment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.diagnosis import RULES, align, judge
from labkit.wire import Call, CodeError, Evidence, RankView

from .build import World, source_of, steps, world

BRANCH = {0: "ar1 bc2 ar5", 1: "ar1 bc4 ar5", 2: "ar1 bc4 ar5", 3: "ar1 bc4 ar5"}
RING = {0: "send1^1 recv2^3", 1: "recv3^0 send4^2", 2: "send1^3 recv2^1", 3: "recv3^2 send4^0"}
QUICK_RING = {rank: f"isend1^{(rank + 1) % 4} recv2^{(rank - 1) % 4}" for rank in range(4)}


def _old(calls: tuple[Call, ...], cell: int) -> tuple[Call, ...]:
    return tuple(replace(call, cell=cell, state="failed") for call in calls)


def _worlds() -> dict[str, Evidence]:
    own_error = CodeError("NameError", "name 'y' is not defined")
    everybody_raised = world("ar1").run()
    for rank in range(4):
        everybody_raised.but(rank, error=own_error)
    after = world("ar1 ar2", {2: "ar1"}).run().cut().evidence()
    recovered = replace(after, generation=2, ranks=tuple(replace(v, calls=(), generation=2) for v in after.ranks))
    stale = replace(after, generation=2)
    newer = world("ar1 bar2").run().evidence()
    history = replace(after, cell=8, ranks=tuple(replace(v, cell=8, error=None, calls=_old(v.calls, 7)) for v in after.ranks))
    together = world("ar1").run()
    for rank in range(4):
        together.calls[rank][-1] = replace(together.calls[rank][-1], state="issued", returned_s=0.0)
        together.but(rank, activity="call")
    return {
        "nothing ran yet": Evidence(4, ranks=tuple(RankView(rank) for rank in range(4))),
        "no ranks seen": Evidence(4),
        "one rank": world("ar1", ranks=1).run().evidence(),
        "all done": newer,
        "a branch on the rank": world("", BRANCH).run().evidence(),
        "a ring of sends": world("", RING).run().evidence(),
        "a ring of isends": world("", QUICK_RING).run().evidence(),
        "asynchronous": world("ar1& ar2& bar3").run().evidence(),
        "asynchronous, nobody waited": world("ar1& ar2&", {2: "ar1& ar2&"}).run(3).evidence(),
        "a subgroup": world("ar1", {0: "ar2%tp ar1", 1: "ar2%tp ar1"}, groups={"tp": (0, 1)}).run().evidence(),
        "everybody raised": everybody_raised.evidence(),
        "recovered": recovered,
        "calls of the generation before": stale,
        "an older cell failed": history,
        "all in the same call for long": together.evidence(60.0),
        "not yet come": world("ar1 ar2", {3: "ar1 busy2"}).run().evidence(0.25),
        "a little late": world("ar1 ar2").run().late(2, 0.45).evidence(),
        "sizes that may differ": _uneven(),
        "lists of uneven tensors on nccl": replace(_uneven("all_gather"), backend="nccl"),
        "only two ranks were sent the cell": world("ar1%tp", targets=(0, 1), groups={"tp": (0, 1)}).run().evidence(),
        "two are late": world("ar1 ar2").run().late(2, 1.0).late(3, 1.0).evidence(),
        "an interrupted world": _interrupted(),
        "a flat tensor beside a matrix of its size": _reshaped(),
        "no call sites": _no_sites(),
    }


def _uneven(op: str = "all_to_all_single") -> Evidence:
    evidence = world("ar1", {1: "ar1"}).run().evidence()
    views = tuple(replace(v, calls=tuple(replace(c, op=op, shape=(v.rank + 1,)) for c in v.calls)) for v in evidence.ranks)
    return replace(evidence, ranks=views)


def _reshaped() -> Evidence:
    evidence = world("ar1").run().evidence()
    views = tuple(replace(v, calls=tuple(replace(c, shape=(2, 4) if v.rank else (8,)) for c in v.calls)) for v in evidence.ranks)
    return replace(evidence, ranks=views)


def _no_sites() -> Evidence:
    evidence = world("ar1 ar2", {1: "ar2 ar1"}).run().evidence()
    views = tuple(replace(v, calls=tuple(replace(c, site=None) for c in v.calls)) for v in evidence.ranks)
    return replace(evidence, ranks=views)


def _interrupted() -> Evidence:
    seen = world("ar1").run()
    for rank in range(4):
        seen.but(rank, error=CodeError("KeyboardInterrupt", ""))
    return seen.evidence()


WORLDS = _worlds()


@pytest.mark.parametrize("name", WORLDS)
def test_no_verdict(name: str) -> None:
    assert judge(WORLDS[name]) == ()


@st.composite
def healthy_worlds(draw: st.DrawFn) -> World:
    """2 to 4 ranks with one program: collectives of all kinds, a subgroup, branches, rings, loops."""
    ranks = draw(st.integers(2, 4))
    pair = tuple(sorted(draw(st.permutations(range(ranks)))[:2]))
    programs: list[list[str]] = [[] for _ in range(ranks)]
    line = 0
    for kind in draw(st.lists(st.sampled_from(["same", "same", "async", "branch", "pair", "p2p", "loop"]), max_size=8)):
        line += 2
        op = draw(st.sampled_from(["ar", "bc", "bar", "ag", "rs", "ar~max", "ar:4"]))
        word, _, rest = op.partition("~")
        size = "" if ":" not in op else ":4"
        word = word.partition(":")[0]
        token = f"{word}{{}}{size}" + (f"~{rest}" if rest else "")
        for rank in range(ranks):
            mine = token.format(line)
            if kind == "async":
                mine += "&"
            elif kind == "branch":
                mine = token.format(line + (rank == 0))
            elif kind == "loop":
                mine = " ".join([mine] * 3)
            elif kind == "pair":
                mine = f"ar{line}%tp" if rank in pair else ""
            elif kind == "p2p":
                mine = {pair[0]: f"send{line}^{pair[1]}", pair[1]: f"recv{line + 1}^{pair[0]}"}.get(rank, "")
            programs[rank].append(mine)
    scripts = [" ".join(program) for program in programs]
    return world("", dict(enumerate(scripts)), ranks, groups={"tp": pair})


@settings(max_examples=4 * settings().max_examples)
@given(healthy_worlds(), st.integers(0, 60), st.integers(1, 10_000), st.floats(0, 0.25))
def test_no_verdict_at_any_moment(seen: World, ticks: int, seed: int, waited_s: float) -> None:
    evidence = seen.run(ticks, seed).evidence(waited_s)
    assert judge(evidence) == ()
    assert [rule.code for rule in RULES.values() if rule.claim(align(evidence))] == []


@settings(max_examples=2 * settings().max_examples)
@given(healthy_worlds(), st.integers(1, 10_000))
def test_no_verdict_when_all_is_done(seen: World, seed: int) -> None:
    evidence = seen.run(None, seed).evidence(30.0)
    assert all(call.state == "done" for view in evidence.ranks for call in view.calls)
    assert judge(evidence) == ()


def test_a_full_beacon_is_no_difference() -> None:
    """A beacon keeps the last 256 calls; what fell off is compared with nothing."""
    script = "ar1 ar2 ar3 " * 90
    evidence = world("", {0: script, 1: script + "ar4", 2: script + "ar4"}, 3).run(270 * 3).evidence(0.1)
    views = tuple(replace(v, calls=v.calls[-256:]) for v in evidence.ranks)
    assert judge(replace(evidence, ranks=views)) == ()
    assert source_of([steps("ar1")]) == "dist.all_reduce(x)"
