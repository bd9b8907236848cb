"""Every case of the corpus: claimed by exactly one rule, with the right culprits and sentence."""

from __future__ import annotations

import inspect
import re

import pytest

from labkit.diagnosis import RULES, judge
from labkit.wire import dumps, loads

from .build import claims_at_one_priority
from .corpus import cases

SECTIONS = ("What", "Why", "Evidence", "Remedy")
MEANING = re.compile(
    r"ranks \d[\d, and-]*\d|rank \d|\w+ #\d+|(?:send|recv) (?:to|from) rank \d|line \d+|shape \(.*?\), \w+|SIG\w+|[\d.]+ m?s\b"
    r"|raised \w+|root \d|finished|stopped|busy|lock|skipped|extra|likely|refused|exit code \d|early|deadlock"
    r"|waits?\b|sent only to"
)


def meaning(sentence: str) -> set[str]:
    """What a sentence says whatever its words: which ranks, which calls, lines, sizes, and what became of them."""
    return {found.lower() for found in MEANING.findall(sentence)}


CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", CASES)
def test_one_rule_claims_it(name):
    case = CASES[name]
    assert [verdict.code for verdict in judge(case.evidence)] == [case.code]
    assert claims_at_one_priority(case.evidence) == []


@pytest.mark.parametrize("name", CASES)
def test_culprits_and_sentence(name):
    case = CASES[name]
    (verdict,) = judge(case.evidence)
    assert verdict.culprits == case.culprits, verdict.sentence
    assert meaning(case.sentence) <= meaning(verdict.sentence), verdict.sentence
    if case.ending:
        assert verdict.ending == case.ending
    assert not set(verdict.culprits) & set(verdict.waiting)


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_is_complete(name):
    (verdict,) = judge(CASES[name].evidence)
    rule = RULES[verdict.code]
    assert (verdict.rule, verdict.title) == (rule.name, rule.title)
    assert verdict.next_step.endswith(".")
    assert verdict.sentence.endswith(".")
    assert "  " not in verdict.sentence
    assert ".." not in verdict.sentence
    assert verdict.sides
    assert verdict.facts
    assert all(side.ranks and side.did for side in verdict.sides)
    for side in verdict.sides:
        assert side.source == CASES[name].evidence.source_line(side.site)


@pytest.mark.parametrize("name", CASES)
def test_evidence_from_a_recording_gives_the_same_verdict(name):
    evidence = CASES[name].evidence
    assert judge(loads(dumps(evidence))) == judge(evidence)


def test_every_rule_has_a_case_with_its_sentence():
    assert {case.code for case in CASES.values() if case.sentence} == set(RULES)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_docstring_sections(rule):
    parts = re.split(rf"^({'|'.join(SECTIONS)}): ", inspect.cleandoc(type(rule).__doc__), flags=re.MULTILINE)
    sections = {head: " ".join(body.split()) for head, body in zip(parts[1::2], parts[2::2], strict=True)}
    assert tuple(sections) == SECTIONS
    assert all(len(text) > 40 and text.endswith(".") for text in sections.values())


def test_codes_and_names():
    assert all(re.fullmatch(r"LK\d{3}", code) for code in RULES)
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_a_side_quotes_its_line():
    (verdict,) = judge(CASES["order"].evidence)
    assert [(side.ranks, side.did, side.source) for side in verdict.sides] == [
        ((0, 1, 3), "wait in all_reduce #2", "dist.all_reduce(x)"),
        ((2,), "waits in broadcast #2", "dist.broadcast(x)"),
    ]
    assert "world.recover()" in verdict.next_step
