"""Which messages a content rule decides of."""

import itertools
import json
from typing import Any

import pytest

from poisonadmin.rules.domain.content_rules import (
    MAX_JSON_BYTES,
    ContentRules,
    FilterDecision,
    Subject,
    compile_content_rule,
)
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import Before, RuleDefinition, RuleFailed

ORDER = {
    "employee": {"id": None, "name": ""}, "amount": -4.5, "paid": True, "kind": "push.v2", "lines": [{"sku": "a"}, {}],
    "one": 1, "no_lines": [], "no_address": {}, "zero": 0, "unpaid": False,
}  # fmt: skip


def rule(match: dict[str, Any], do: str = "reject", **more: Any) -> RuleDefinition:
    return RuleDefinition(more.pop("id", 1), "a rule", 1, match, {"do": do, **more})


def subject(payload: Any = ORDER, **more: Any) -> Subject:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Subject(raw, **({"loads": json.loads, "content_type": "application/json"} | more))


def matches(match: dict[str, Any], about: Subject) -> bool:
    return compile_content_rule(rule(match), compile_schema=compile_schema).holds(about)


def at(path: str, **test: Any) -> dict[str, Any]:
    return {"json": [{"path": path, **test}]}


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({}, True),
        ({"content_type": "application/*"}, True),
        ({"content_type": "APPLICATION/JSON"}, True),
        ({"content_type": "text/*"}, False),
        ({"size": {"min": 1, "max": 10_000}}, True),
        ({"size": {"min": 10_000}}, False),
        ({"headers": [{"name": "x-kind", "present": True}]}, True),
        ({"headers": [{"name": "X-KIND", "like": "pu?h*"}]}, True),
        ({"headers": [{"name": "X-Kind", "like": "pull*"}]}, False),
        ({"headers": [{"name": "X-Other", "absent": True}]}, True),
        ({"headers": [{"name": "X-Other", "like": "*"}]}, False),
        ({"not_json": True}, False),
        (at("$.employee.id", present=True), True),
        (at("$.employee.id", missing=True), True),
        (at("$.employee.name", missing=True), True),
        (at("$.employee.age", missing=True), True),
        (at("$.no_lines", missing=True), True),
        (at("$.no_address", missing=True), True),
        (at("$.lines", missing=True), False),
        (at("$.zero", missing=True), False),
        (at("$.unpaid", missing=True), False),
        (at("$.employee.age", absent=True), True),
        (at("$.employee.id", absent=True), False),
        (at("$.amount", missing=True), False),
        (at("$.amount", outside={"min": 0}), True),
        (at("$.amount", within={"min": -5, "max": 0}), True),
        (at("$.kind", outside={"min": 0}), True),
        (at("$.nothing", outside={"min": 0}), False),
        (at("$.paid", within={"min": 0}), False),
        (at("$.paid", equals=True), True),
        (at("$.paid", equals=1), False),
        (at("$.one", equals=True), False),
        (at("$.one", equals=1), True),
        (at("$.one", one_of=[3, 1.0]), True),
        (at("$.one", one_of=[True, "1"]), False),
        (at("$.employee.id", equals=None), True),
        (at("$.employee.id", one_of=["a", None]), True),
        (at("$.lines", one_of=["a"]), False),
        (at("$.kind", like="push.*"), True),
        (at("$.amount", like="*"), False),
        (at("$.lines[*].sku", equals="a"), True),
        (at("$.lines[1].sku", present=True), False),
        (at("$['employee']['name']", equals=""), True),
        ({"violates": {"required": ["id"]}}, True),
        ({"violates": {"required": ["kind"]}}, False),
        ({"json": [{"path": "$.one", "equals": 1}, {"path": "$.paid", "equals": False}]}, False),
    ],
)
def test_a_condition_holds(match: dict[str, Any], holds: bool) -> None:
    assert matches(match, subject(headers={"X-Kind": "push it"})) is holds


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff\xfe", b'{"a": NaN', b"[" * 100_000])
def test_what_is_not_json_meets_no_condition_on_json(payload: bytes) -> None:
    assert matches({"not_json": True}, subject(payload))
    assert not matches(at("$.a", absent=True), subject(payload))
    assert not matches({"violates": False}, subject(payload))


def test_a_payload_that_is_too_large_is_not_looked_into() -> None:
    large = subject(b"1" * (MAX_JSON_BYTES + 1))
    assert not matches({"not_json": True}, large)
    assert not matches(at("$.a", absent=True), large)
    assert matches({"size": {"min": MAX_JSON_BYTES}}, large)


@pytest.mark.parametrize(("expires_in_ms", "holds"), [(None, False), (500.0, True), (-1.0, True), (1001.0, False)])
def test_a_message_that_soon_expires_can_be_told(expires_in_ms: float | None, holds: bool) -> None:
    assert matches({"expires_within_ms": 1000}, subject(expires_in_ms=expires_in_ms)) is holds


def table(*rules: RuleDefinition) -> ContentRules:
    return ContentRules([compile_content_rule(one, compile_schema=compile_schema) for one in rules])


def test_the_first_match_decides() -> None:
    rules = table(
        rule({"address": "returns.#"}, id=1),
        rule({"size": {"min": 10_000}}, id=2),
        rule({"address": "orders.*"}, "redirect", id=3, address="orders.odd.place", tags=["odd"]),
        rule({}, "discard", id=4),
    )
    assert rules.ask("orders.eu", subject()) == FilterDecision(
        3, "a rule", Before.REDIRECT, "orders.odd.place", ("odd",)
    )
    assert rules.ask("orders", subject()) == FilterDecision(4, "a rule", Before.DISCARD, None, ())
    assert table(rule({"address": "returns.#"})).ask("orders.eu", subject()) is None


def test_a_rule_that_takes_too_long_is_not_asked_again_and_the_next_one_is() -> None:
    slow = rule(at("$.one", equals=1), id=1)
    compiled = [compile_content_rule(one, compile_schema=compile_schema) for one in (slow, rule({}, "discard", id=2))]
    rules = ContentRules(compiled, clock=itertools.count().__next__)
    decided = [rules.ask("orders.eu", subject()) for _ in range(3)]
    assert {decision.rule_id for decision in decided if decision} == {2}
    assert list(rules.failed) == [1]
    assert "for one message" in rules.failed[1].why


def test_a_rule_that_cannot_be_asked_is_not_asked_again_and_the_next_one_is() -> None:
    def broken(_: Any) -> Any:
        def ask(_: Any) -> bool:
            raise ZeroDivisionError("no")

        return ask

    rules = ContentRules(
        [
            compile_content_rule(rule({"violates": {}}, id=1), compile_schema=broken),
            compile_content_rule(rule({}, "discard", id=2), compile_schema=broken),
        ]
    )
    decision = rules.ask("orders.eu", subject())
    assert decision is not None
    assert decision.rule_id == 2
    assert "ZeroDivisionError" in rules.failed[1].why


@pytest.mark.parametrize(
    "broken",
    [
        rule({"violates": {"$ref": "http://example.com/"}}),
        rule({"json": [{"path": "nonsense", "present": True}]}),
        RuleDefinition(1, "a rule", 1, {}, {"do": "explode"}),
        RuleDefinition(1, "a rule", 1, {"size": 4}, {"do": "reject"}),
    ],
)
def test_whatever_stands_in_the_table_fails_as_a_rule(broken: RuleDefinition) -> None:
    with pytest.raises(RuleFailed, match="cannot be compiled"):
        compile_content_rule(broken, compile_schema=compile_schema)


def test_a_hostile_text_takes_no_longer_than_its_length() -> None:
    # With backtracking this would not come back.
    text = "a" * 100_000
    assert not matches(at("$.t", like="*a*a*a*a*a*a*a*a*a*a*b"), subject({"t": text}))
    assert matches(at("$.t", like="*a*a*?*a*a"), subject({"t": text}))
