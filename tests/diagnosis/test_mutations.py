"""One slip on one rank of a healthy program: exactly that rank is named, live and after the fact."""

from __future__ import annotations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from labkit.diagnosis import judge

from .build import World, claims_at_one_priority, world

OPS = ["ar{}", "ar{}", "ar{}", "bc{}", "bar{}", "ag{}", "ar{}:4", "ar{}~max"]


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    """A cell's calls, each on its own line; some lines run several times."""
    tokens: list[str] = []
    for number in range(draw(st.integers(1, 7))):
        token = draw(st.sampled_from(OPS)).format(2 * number + 1)
        tokens += [token] * draw(st.sampled_from([1, 1, 1, 3]))
    return tokens


@st.composite
def slips(draw: st.DrawFn) -> tuple[World, int, str]:
    """A world with one slip, its rank and its kind."""
    tokens = draw(programs())
    ranks = draw(st.integers(3, 4))
    rank = draw(st.integers(0, ranks - 1))
    kind = draw(st.sampled_from(["swap", "drop", "insert", "repeat", "resize", "root"]))
    at = draw(st.integers(0, len(tokens) - 1))
    mine = list(tokens)
    if kind == "swap":
        assume(at + 1 < len(mine))
        mine[at], mine[at + 1] = mine[at + 1], mine[at]
    elif kind == "drop":
        del mine[at]
    elif kind == "insert":
        mine.insert(at, draw(st.sampled_from(OPS)).format(100))
    elif kind == "repeat":
        mine.insert(at, mine[at])
    elif kind == "resize":
        assume("bar" not in mine[at])
        mine[at] = mine[at].replace(":4", "") + ":16" if "~" not in mine[at] else mine[at].replace("~", ":16~")
    else:
        assume("bc" in mine[at])
        mine[at] += "^1"
    assume(mine != tokens)
    return world(" ".join(tokens), {rank: " ".join(mine)}, ranks), rank, kind


@settings(max_examples=5 * settings().max_examples)
@given(slips(), st.integers(1, 1000), st.booleans())
def test_the_rank_is_named(slip: tuple[World, int, str], seed: int, after: bool) -> None:
    seen, rank, kind = slip
    seen.run(None, seed)
    evidence = seen.cut().evidence() if after else seen.evidence()
    verdicts = judge(evidence)
    assert len(verdicts) == 1
    assert verdicts[0].culprits == (rank,), verdicts[0].sentence
    assert claims_at_one_priority(evidence) == []
    event(f"{kind}: {verdicts[0].code}")


@settings(max_examples=2 * settings().max_examples)
@given(programs(), st.sampled_from(["busy99", "raise99", "die", "stop", ""]), st.data())
def test_a_rank_that_does_not_come_is_named(tokens: list[str], fate: str, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(3, 4))
    rank = data.draw(st.integers(0, ranks - 1))
    at = data.draw(st.integers(0, len(tokens) - 1))
    seen = world(" ".join(tokens), {rank: " ".join([*tokens[:at], fate])}, ranks).run(None, data.draw(st.integers(1, 1000)))
    after = data.draw(st.booleans())
    (verdict,) = judge(seen.cut().evidence() if after else seen.evidence())
    assert verdict.culprits == (rank,), verdict.sentence
    assert verdict.code == {"busy99": "LK010", "raise99": "LK003", "die": "LK001", "stop": "LK002", "": "LK007"}[fate]
    assert set(verdict.waiting) == set(range(ranks)) - {rank}


@settings(max_examples=2 * settings().max_examples)
@given(slips(), st.integers(1, 1000))
def test_with_two_ranks_the_slip_is_never_another_story(slip: tuple[World, int, str], seed: int) -> None:
    """Two ranks have no majority: there is a verdict, and it names one of the two or both."""
    seen, rank, _ = slip
    other = (rank + 1) % len(seen.programs)
    pair = World([seen.programs[rank], seen.programs[other]], {"world": (0, 1)}).run(None, seed)
    (verdict,) = judge(pair.evidence())
    assert set(verdict.culprits) <= {0, 1}
    assert verdict.culprits


FATES = ("", "", "", "busy99", "raise99", "die", "stop", "leave", "ar90", "send91^0 ar92", "recv93^1")


@settings(max_examples=3 * settings().max_examples)
@given(programs(), st.lists(st.tuples(st.sampled_from(FATES), st.integers(0, 9)), min_size=2, max_size=5), st.data())
def test_whatever_goes_wrong_at_once_no_two_rules_claim_the_same(
    tokens: list[str], fates: list[tuple[str, int]], data: st.DataObject
) -> None:
    scripts = {rank: " ".join([*tokens[:at], fate]) if fate else " ".join(tokens) for rank, (fate, at) in enumerate(fates)}
    seen = world("", scripts, len(fates)).run(None, data.draw(st.integers(1, 1000)))
    seen = data.draw(st.sampled_from([lambda: seen, seen.cut, seen.refuse]))()
    evidence = seen.evidence(data.draw(st.sampled_from([0.05, 0.4, 3.0])))
    assert claims_at_one_priority(evidence) == []
    verdicts = judge(evidence)
    assert len({verdict.code for verdict in verdicts}) == len(verdicts) <= 3
    for verdict in verdicts:
        assert not set(verdict.culprits) & set(verdict.waiting)
        event(verdict.code)
