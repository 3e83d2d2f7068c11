"""What may stand in the table of rules."""

from typing import Any

import pytest

from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import RuleDefinition, Stage, validate_rule

BEFORE, AFTER = Stage.BEFORE, Stage.AFTER
REJECT = {"do": "reject"}
PARK = {"do": "park"}


@pytest.mark.parametrize(
    ("stage", "match", "action"),
    [
        (BEFORE, {}, REJECT),
        (BEFORE, {"address": "orders.#", "content_type": "text/*"}, {"do": "discard", "tags": ["odd"]}),
        (BEFORE, {"size": {"max": 10}, "expires_within_ms": 1000}, {"do": "redirect", "address": "orders.other"}),
        (BEFORE, {"headers": [{"name": "X-Kind", "like": "push*"}]}, {"do": "tag", "tags": ["push"]}),
        (BEFORE, {"headers": [{"name": "X-Kind", "absent": True}], "not_json": True}, REJECT),
        (BEFORE, {"json": [{"path": "$.employee.id", "missing": True}]}, REJECT),
        (BEFORE, {"json": [{"path": "$.amount", "outside": {"min": 0}}]}, REJECT),
        (BEFORE, {"json": [{"path": "$.kind", "one_of": ["a", 1, None, False]}]}, REJECT),
        (BEFORE, {"violates": {"type": "object", "required": ["id"]}}, REJECT),
        (AFTER, {}, PARK),
        (AFTER, {"exception_class": "*Timeout", "message": "*deadlock*"}, {"do": "retry", "delay_ms": 60_000}),
        (AFTER, {"status_code": {"min": 500, "max": 599}}, {"do": "retry", "factor": 2.5}),
        (AFTER, {"attempts": {"min": 3}, "failures": {"max": 2}, "tags": ["odd"]}, {"do": "fail"}),
        (AFTER, {"destination": "shop"}, {"do": "redirect", "address": "orders.slow"}),
        (AFTER, {"address": "orders.*"}, {"do": "end_conversation"}),
    ],
)
def test_a_rule_is_stored_as_it_was_written(stage: Stage, match: dict[str, Any], action: dict[str, Any]) -> None:
    assert validate_rule(stage, match, action) == (match, action)


def test_what_means_anything_is_not_a_condition() -> None:
    match = {"address": "*", "content_type": "*", "size": None}
    assert validate_rule(BEFORE, match, REJECT) == ({}, REJECT)


def test_one_status_code_is_a_range_of_one() -> None:
    assert validate_rule(AFTER, {"status_code": 409}, PARK)[0] == {"status_code": {"min": 409, "max": 409}}


@pytest.mark.parametrize(
    ("stage", "match", "action", "field"),
    [
        (BEFORE, {"adress": "orders.#"}, REJECT, "match.adress"),
        (BEFORE, {"status_code": 500}, REJECT, "match.status_code"),
        (AFTER, {"size": {"min": 1}}, PARK, "match.size"),
        (BEFORE, {"address": "orders..eu"}, REJECT, "match.address"),
        (BEFORE, {"address": 4}, REJECT, "match.address"),
        (BEFORE, {"content_type": ""}, REJECT, "match.content_type"),
        (BEFORE, {"content_type": "\udcff"}, REJECT, "match.content_type"),
        (BEFORE, {"size": {"min": 10, "max": 1}}, REJECT, "match.size"),
        (BEFORE, {"size": {"min": -1}}, REJECT, "match.size.min"),
        (BEFORE, {"size": {"least": 1}}, REJECT, "match.size"),
        (BEFORE, {"size": {}}, REJECT, "match.size"),
        (BEFORE, {"headers": {}}, REJECT, "match.headers"),
        (BEFORE, {"headers": [{"name": "X Kind", "present": True}]}, REJECT, "match.headers[0].name"),
        (BEFORE, {"headers": [{"name": "X-Kind"}]}, REJECT, "match.headers[0]"),
        (BEFORE, {"json": [{"path": "order.id", "present": True}]}, REJECT, "match.json[0].path"),
        (BEFORE, {"json": [{"path": "$.a", "present": True}, {"path": "$.b", "above": 1}]}, REJECT, "match.json[1]"),
        (BEFORE, {"json": [{"path": "$.a", "equals": {"b": 1}}]}, REJECT, "match.json[0].equals"),
        (BEFORE, {"json": [{"path": "$.a", "one_of": []}]}, REJECT, "match.json[0].one_of"),
        (BEFORE, {"json": [{"path": "$.a", "within": {"min": True}}]}, REJECT, "match.json[0].within.min"),
        (BEFORE, {"json": [{"path": "$.a", "within": {"max": float("nan")}}]}, REJECT, "match.json[0].within.max"),
        (BEFORE, {"json": [{"path": "$.a\ud800", "present": True}]}, REJECT, "match.json[0].path"),
        (BEFORE, {"json": [{"path": "$.a", "equals": "\0"}]}, REJECT, "match.json[0].equals"),
        (BEFORE, {"violates": {"const": "\0"}}, REJECT, "match.violates"),
        (BEFORE, {"not_json": False}, REJECT, "match.not_json"),
        (BEFORE, {"violates": ["type"]}, REJECT, "match.violates"),
        (BEFORE, {"violates": {"enum": ["x" * 300_000]}}, REJECT, "match.violates"),
        (BEFORE, {}, {"do": "park"}, "action.do"),
        (BEFORE, {}, {}, "action.do"),
        (BEFORE, {}, {"do": ["reject"]}, "action.do"),
        (BEFORE, {}, {"do": "redirect"}, "action.address"),
        (BEFORE, {}, {"do": "redirect", "address": "orders.#"}, "action.address"),
        (BEFORE, {}, {"do": "reject", "address": "orders"}, "action.address"),
        (BEFORE, {}, {"do": "tag"}, "action.tags"),
        (BEFORE, {}, {"do": "tag", "tags": ["a,b"]}, "action.tags"),
        (AFTER, {}, {"do": "retry"}, "action.delay_ms"),
        (AFTER, {}, {"do": "retry", "delay_ms": 1, "factor": 2}, "action.delay_ms"),
        (AFTER, {}, {"do": "retry", "delay_ms": -1}, "action.delay_ms"),
        (AFTER, {}, {"do": "retry", "factor": float("inf")}, "action.factor"),
        (AFTER, {"status_code": 99}, PARK, "match.status_code.min"),
        (AFTER, {"attempts": {"min": 0}}, PARK, "match.attempts.min"),
        (AFTER, {"tags": "odd"}, PARK, "match.tags"),
    ],
)
def test_what_a_rule_cannot_be_is_refused_by_the_name_of_its_column(
    stage: Stage, match: dict[str, Any], action: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRule) as refused:
        validate_rule(stage, match, action)
    assert refused.value.field == field


def test_a_redirect_leaves_alone_what_is_where_it_leads() -> None:
    rule = RuleDefinition(1, "r", 1, {"address": "orders.#"}, {"do": "redirect", "address": "orders.odd"})
    assert rule.covers("orders.eu")
    assert not rule.covers("orders.odd")
