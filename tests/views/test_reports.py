"""Status, verdict, diagnosis, recovery, injection, op result, outcome: exact texts, and HTML that is whole."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from typing import Any

import pytest

from labkit import wire
from labkit.errors import UnknownName
from labkit.recovered import about
from labkit.views import VIEWS, to_html, to_text
from labkit.views.world_status import look
from labkit.vocabulary import RankState
from labkit.wire import Diagnosis, OpResult, Outcome, RankCard, RecoveryReport

VERDICT = (
    "LK002: rank 2 called broadcast (cell 7, line 3) while ranks 0, 1 and 3 wait in\n"
    "   all_reduce #5 (cell 7, line 5).\n"
    "  rank 2: called broadcast #5 (cell 7, line 3)\n"
    "      dist.broadcast(x, 0)\n"
    "  ranks 0, 1 and 3: wait in all_reduce #5 (cell 7, line 5)\n"
    "      dist.all_reduce(x)\n"
    "Next: call the same collective on every rank, in the same order."
)


def test_every_kind_has_a_view() -> None:
    kinds = {
        "CellResult",
        "OpResult",
        "TensorTable",
        "WorldStatus",
        "Verdict",
        "Diagnosis",
        "RecoveryReport",
        "Injection",
        "Outcome",
    }
    assert kinds <= set(VIEWS)
    assert all(VIEWS[kind].place == (getattr(wire, kind).__module__, kind) for kind in kinds)


def test_a_table_of_long_numbers_fits_a_terminal(samples: Any) -> None:
    rows = [[(-1) ** rank * 10.0 ** -(i % 9) / 3 for i in range(40)] for rank in range(3)]
    lines = str(samples.table(rows, before=rows)).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("rank 2") for line in lines) == 4


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(UnknownName, match="no view 'int'"):
        to_text(3)


def test_status(samples: Any) -> None:
    assert to_text(samples.status()) == (
        "4 ranks, gloo, raw mode, generation 2, fork launcher, ready in 1.84 s\n"
        "rank  device  backend  pid   memory   state             detail\n"
        "   0  cpu     gloo     4201  180 MiB  idle\n"
        "   1  cpu     gloo     4202  181 MiB  in all_reduce #5  cell 7, line 5\n"
        "   2  cpu     gloo     4203  -        dead              ended with signal 9\n"
        "   3  cpu     gloo     4204  182 MiB  in cell 7\n"
        "rank 2 is gone; world.recover() makes a new one"
    )


def test_cards_carry_a_symbol_besides_the_colour(samples: Any) -> None:
    html = to_html(samples.status())
    for mark in ("✓ idle", "… in all_reduce #5", "✗ dead", "▸ in cell 7"):
        assert mark in html
    assert html.count("<article") == 4


@pytest.mark.parametrize("state", RankState)
def test_marks_and_colours_follow_from_the_state_whatever_the_words_say(state: RankState) -> None:
    looks = {
        look(RankCard(0, 1, "cpu", "gloo", state, phrase))
        for phrase in ("", "dead", "stuck in a call", "in x", "idle", "new words")
    }
    assert len(looks) == 1


def test_the_states_have_their_marks() -> None:
    marks = {state: look(RankCard(0, 1, "cpu", "gloo", state)) for state in RankState}
    assert {state for state, (symbol, accent) in marks.items() if (symbol, accent) == ("✗", "bad")} == {"dead", "stuck", "raised"}
    waiting = {state for state, (symbol, accent) in marks.items() if (symbol, accent) == ("…", "wait")}
    assert waiting == {"waiting", "stopped", "unreachable", "cut off"}
    assert [state for state, (symbol, accent) in marks.items() if (symbol, accent) == ("✓", "good")] == ["idle"]


def test_a_host_is_named_where_there_are_several(samples: Any) -> None:
    status = samples.status()
    far = dataclasses.replace(status, cards=tuple(dataclasses.replace(card, host=f"node{card.rank}") for card in status.cards))
    assert to_text(far).splitlines()[1].split()[:3] == ["rank", "host", "device"]
    assert "localhost" not in to_text(status) + to_html(status)


def test_verdict(samples: Any) -> None:
    assert to_text(samples.verdict()) == VERDICT


def test_verdict_in_html_has_the_sentence_first_facts_collapsed_and_the_next_step_last(samples: Any) -> None:
    html = to_html(samples.verdict()).partition("</style>")[2]
    order = [
        html.index(piece) for piece in ("✗ rank 2 called", "dist.broadcast", "<details>", "for 1.2 s", "</details>", "Next:")
    ]
    assert order == sorted(order)


def test_a_verdict_on_lost_time_is_information_everywhere(samples: Any) -> None:
    late = dataclasses.replace(samples.verdict(), ending="slow")
    page = to_html(late).partition("</style>")[2]
    assert "lk-block lk-wait" in page
    assert "lk-bad" not in page
    assert "✗" not in page + to_text(late)
    assert "lk-block lk-bad" in to_html(samples.verdict()).partition("</style>")[2]


def test_diagnosis(samples: Any) -> None:
    found = Diagnosis((samples.verdict(),) * 2, samples.evidence())
    assert to_text(found) == f"{VERDICT}\nAnd 1 more finding:\n{VERDICT}"
    healthy = Diagnosis((), samples.evidence(healthy=True))
    assert to_text(healthy) == "no fault found: all 4 ranks idle, 4 calls looked at, none open"
    assert "✓ no fault found" in to_html(healthy)


def test_a_running_world_is_described(samples: Any) -> None:
    said = to_text(Diagnosis((), samples.evidence()))
    assert said.startswith("no verdict: ranks 0-3 are in all_reduce")
    assert "no fault" not in said


def test_recovery(samples: Any) -> None:
    assert to_text(samples.recovery("ranks")) == (
        "recovered in under a second: freed ranks 0, 1 and 3; replaced rank 2 with a new\n"
        "   process\n"
        "  kept: model, x (ranks 0, 1 and 3)\n"
        "  lost: model, x (rank 2)\n"
        "  check: all_reduce of ones gave 4 on every rank"
    )
    assert "step by step (2), in 83 ms" in to_html(samples.recovery())
    assert to_text(RecoveryReport("none", 1)) == "nothing to recover: every rank was healthy"
    assert to_text(RecoveryReport("cluster", 3, elapsed_s=4.2)) == "recovered in about 4 s: started the whole cluster anew"


def test_many_names_are_shortened() -> None:
    names = tuple(f"v{i:02}" for i in range(20))
    assert "v11 and 8 more" in to_text(RecoveryReport("soft", 2, kept={"0": names}))


def test_times_are_the_same_in_every_run() -> None:
    assert {about(0.01), about(0.9)} == {"in under a second"}


def test_injection(samples: Any) -> None:
    assert to_text(samples.injection()) == (
        "swapped-order on rank 2: armed, has not fired yet\n"
        "  One rank calls two collectives in the other order\n"
        "  with: at=1\n"
        "  expected: the ranks hang; verdict LK002 or LK003"
    )
    fired = to_text(samples.injection(fired=1, active=False, verdict="LK009"))
    assert "fired once, no longer armed" in fired
    assert fired.endswith("seen: LK009, which is not what was declared")


def test_op_result_and_outcome() -> None:
    assert to_text(OpResult("sum", tuple(Outcome(rank, value=42) for rank in range(4)))) == "all 4 ranks: 42"
    assert to_text(OpResult("sum", (Outcome(0, value=1), Outcome(1, value="a")))) == "rank 0: 1\nrank 1: 'a'"
    assert to_text(OpResult("push", (Outcome(0), Outcome(1)))) == "push: done on all 2 ranks"
    assert to_text(OpResult("push", (Outcome(0), Outcome(1)), world_size=4)) == "push: done on ranks 0 and 1"
    assert to_text(Outcome(1, value=[1, 2])) == "rank 1: [1, 2]"
    assert to_text(Outcome(1)) == "rank 1: done"


class _Balance(HTMLParser):
    """Every element is closed in its turn, and none of them could run code."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "img", "a", "link")
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _hostile(value: Any) -> Any:
    """The record with every text made an attack."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: _hostile(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, tuple):
        return tuple(_hostile(item) for item in value)
    if isinstance(value, dict):
        return {key: _hostile(item) for key, item in value.items()}
    return f"{value}\"'><script>x</script>" if isinstance(value, str) else value


def test_html_is_whole_and_harmless_for_hostile_records(samples: Any) -> None:
    records = [
        samples.hung(),
        samples.status(),
        samples.table([[1.0, 2.0], [1.0, 3.0]], before=[[0.0, 0.0]] * 2),
        samples.verdict(),
        Diagnosis((samples.verdict(),), samples.evidence()),
        samples.recovery("ranks"),
        samples.injection(fired=2, verdict="LK001"),
        OpResult("sum", (Outcome(0, value="<b>"), Outcome(1, value={"<i>": 2}))),
        samples.printed(0, "x", value="<u>"),
    ]
    for record in records:
        for drawn in (to_html(record), to_html(_hostile(record))):
            parser = _Balance()
            parser.feed(drawn)
            assert parser.open == []
        assert to_html(record) == to_html(record)
