"""Findings: what is planted comes first, what is the same is one, what is explained is left out, noise is nothing."""

import random
from collections.abc import Callable

import pytest

from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.conditions import (
    FieldCondition,
    Operator,
    rule_match,
    search_parameter,
    search_word,
)
from poisonadmin.comparisons.domain.cuts import Bin, best_cut, round_between
from poisonadmin.comparisons.domain.findings import Candidate, Finding, Sample, find, finding_from, sentence
from poisonadmin.rules.domain.rules import Stage, checked_match
from poisonadmin.search.domain.filters import parse_filter, parse_search
from tests.comparisons.incidents import KINDS, findings_of, is_first, make_incident

SAMPLE = Sample(100, 1_000)


def of(field: str, holds: Callable[[int], bool]) -> Candidate:
    """Return the condition `field = yes`, which holds for these of 1,100 messages, the first 100 of them failing."""
    bits = sum(1 << n for n in range(SAMPLE.failing + SAMPLE.others) if holds(n))
    return Candidate(FieldCondition(field, Operator.IS, "yes"), bits)


def found(*candidates: Candidate, tested: int = 100) -> list[Finding]:
    return find(candidates, SAMPLE, tested=tested)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_planted_comes_first_among_forty_noisy_fields(kind: str, seed: int) -> None:
    incident = make_incident(kind, seed, others=20_000)
    findings = findings_of(incident)
    assert is_first(incident, findings), findings


def test_conditions_of_nearly_the_same_messages_are_one_finding() -> None:
    version, build = of("version", lambda n: n < 98 or n >= 1_070), of("build", lambda n: n < 97 or n >= 1_070)
    (finding,) = found(version, build)
    assert (finding.conditions, finding.also) == ((version.condition,), (build.condition,))
    assert finding.counts == Association(98, 100, 30, 1_000)
    assert sentence(finding, others="of those delivered") == (
        "98 % of these have `version = yes` (also `build = yes`), of those delivered 3 %."
    )
    assert finding_from(finding.as_json()) == finding


def test_of_conditions_that_tell_the_same_the_plainest_is_said_and_not_all_of_the_others() -> None:
    names = ["payload.$.a", *(f"header.x-long-{n}" for n in range(20)), "address"]
    (finding,) = found(*(of(name, lambda n: n < 95) for name in names))
    assert finding.conditions[0].field == "address"
    assert len(finding.also) == 10
    assert sentence(finding, others="of the others") == (
        "95 % of these have `address = yes` (also `header.x-long-0 = yes`, `header.x-long-1 = yes`, "
        "`header.x-long-2 = yes`, 7 more), of the others none."
    )


def test_what_a_better_finding_explains_is_left_out() -> None:
    dice = random.Random(1)
    rolled_out = {n for n in range(1_100) if n < 100 or n >= 1_050}
    # The version is what fails; it was rolled out in the region mostly, where other versions do not fail more.
    region = {n for n in range(1_100) if dice.random() < (0.7 if n in rolled_out else 0.2)}
    (finding,) = found(of("version", rolled_out.__contains__), of("region", region.__contains__))
    assert [one.field for one in finding.conditions] == ["version"]


def test_two_causes_are_two_findings() -> None:
    one, other = of("one", lambda n: n < 55), of("other", lambda n: 45 <= n < 100)
    assert [[each.field for each in finding.conditions] for finding in found(one, other)] == [["one"], ["other"]]


def test_a_pair_is_said_where_neither_part_says_it() -> None:
    one = of("one", lambda n: n < 80 or n % 2 == 0)
    other = of("other", lambda n: n < 80 or (n >= 100 and n % 2 == 1) or n % 3 == 0)
    findings = found(one, other)
    assert {each.field for each in findings[0].conditions} == {"one", "other"}


def test_a_condition_that_few_have_or_that_hardly_differs_is_not_said() -> None:
    assert found(of("few", lambda n: n < 4)) == []
    assert found(of("alike", lambda n: n < 60 or 100 <= n < 650)) == []
    assert found() == []


def test_the_more_was_tried_the_more_it_takes() -> None:
    weak = of("weak", lambda n: n < 20 or 100 <= n < 170)
    assert len(found(weak, tested=1)) == 1
    assert found(weak, tested=10_000) == []


def test_what_the_others_have_more_often_is_no_cause() -> None:
    assert found(of("other", lambda n: n >= 95)) == []


def test_a_cut_lies_between_numbers_and_is_round() -> None:
    bins = [Bin(0, 99.5, 1, 900), Bin(103.7, 5_000, 99, 100)]
    cut = best_cut(bins, 100, 1_000)
    assert cut is not None
    assert (cut.operator, cut.value) == (Operator.AT_LEAST, 100.0)
    below = best_cut([Bin(one.low, one.high, 99 * n, 500) for n, one in ((1, bins[0]), (0, bins[1]))], 100, 1_000)
    assert below is not None
    assert (below.operator, below.value) == (Operator.BELOW, 100.0)
    assert best_cut([], 1, 1) is best_cut([Bin(1, 1, 5, 5)], 5, 5) is None
    assert round_between(0.0, 1e-12) == 1e-12


@pytest.mark.parametrize(
    ("condition", "parameter", "match"),
    [
        (FieldCondition("header.x-a", Operator.IS, "4.2"), ("header.x-a", "4.2"),
         {"headers": [{"name": "x-a", "like": "4.2"}]}),
        (FieldCondition("header.x-a", Operator.IS, "4*"), ("header.x-a", "4*"), None),
        (FieldCondition("header.x-a", Operator.MISSING), None, {"headers": [{"name": "x-a", "absent": True}]}),
        (FieldCondition("key.customer", Operator.IS, "c-7"), ("key.customer", "c-7"), None),
        (FieldCondition("address", Operator.IS, "orders.eu"), ("address", "orders.eu"), {"address": "orders.eu"}),
        (FieldCondition("content_type", Operator.IS, "text/plain"), None, {"content_type": "text/plain"}),
        (FieldCondition("payload_bytes", Operator.BELOW, 10.0), None, {"size": {"max": 9}}),
        (FieldCondition("received_hour", Operator.IS, "3"), None, None),
        (FieldCondition("payload.$.a", Operator.IS, "eu west"), ("q", 'payload.$.a:"eu west"'),
         {"json": [{"path": "$.a", "equals": "eu west"}]}),
        (FieldCondition("payload.$.a", Operator.IS, "true"), ("q", 'payload.$.a:"true"'),
         {"json": [{"path": "$.a", "one_of": [True, "true"]}]}),
        (FieldCondition("payload.$.a", Operator.BELOW, 2.5), ("q", "payload.$.a:<2.5"),
         {"json": [{"path": "$.a", "outside": {"min": 2.5}}]}),
        (FieldCondition("payload.$['a b']", Operator.MISSING), ("q", "!payload.$['a b']:*"),
         {"json": [{"path": "$['a b']", "absent": True}]}),
    ],
)  # fmt: skip
def test_a_condition_is_a_search_and_a_rule_where_these_can_say_it(condition, parameter, match) -> None:
    assert search_parameter(condition) == parameter
    assert rule_match([condition]) == match
    if match is not None:
        assert checked_match(Stage.BEFORE, match) == match
    if parameter is not None:
        assert parse_filter({parameter[0]: [parameter[1]]}).terms


@pytest.mark.parametrize("value", ["4.2", 'the "new" one', "a\\b", "100 %", "x:y", "*", ">5", "!not"])
def test_a_value_is_a_word_of_the_search_box_that_finds_it(value: str) -> None:
    for field in ("header.x-a", "key.customer", "payload.$['a b'].c", "consumer_version"):
        word = search_word(FieldCondition(field, Operator.IS, value))
        assert word is not None
        (term,) = parse_search(word)
        assert (term.values, term.operator, term.negated) == ((value,), "=", False)
    for strange in ("ends with \\", 'a \\" inside', ""):
        assert search_word(FieldCondition("header.x-a", Operator.IS, strange)) is None
