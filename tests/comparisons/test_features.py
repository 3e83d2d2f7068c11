"""A message as fields: named as the search names them, and bounded whatever it holds."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from poisonadmin.comparisons.domain.features import (
    MAX_ELEMENTS,
    MAX_FIELDS,
    MAX_NAME_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_VALUE_CHARS,
    ComparedMessage,
    Feature,
    features,
)
from poisonadmin.core.domain.json_path import parse_path, values_at


def of(document: Any) -> list[Feature]:
    """Return the fields of a payload."""
    found = features(ComparedMessage("orders", payload=json.dumps(document).encode()))
    return [one for one in found if one.field.startswith("payload")]


def test_the_envelope_gives_fields_too() -> None:
    subject = ComparedMessage(
        "orders.eu", datetime(2026, 11, 23, 14, 59, tzinfo=UTC), "api", "text/plain", 12, "shop", "node-1", "4.2.0",
        headers='{"client-version":"4.2.0","retries":"3"}', keys='{"customer":"c-7"}', payload=b"no json",
    )  # fmt: skip
    assert list(features(subject)) == [
        ("address", "orders.eu", None),
        ("received_by", "api", None),
        ("content_type", "text/plain", None),
        ("destination", "shop", None),
        ("node", "node-1", None),
        ("consumer_version", "4.2.0", None),
        ("payload_bytes", "12", 12.0),
        ("received_hour", "14", 14.0),
        ("header.client-version", "4.2.0", None),
        ("header.retries", "3", 3.0),
        ("key.customer", "c-7", None),
    ]


@pytest.mark.parametrize(
    ("value", "text", "number"),
    [
        (12.50, "12.5", 12.5),
        (3.0, "3", 3.0),
        (True, "true", None),
        (None, "null", None),
        ("007", "007", None),
        ("-7.25", "-7.25", -7.25),
        ("1e400", "1e400", None),
        (10**30, str(10**30), None),
        (2**53 + 1, "9007199254740993", None),
        (1e30, None, None),
        ("", "", None),
        ("x" * (MAX_VALUE_CHARS + 1), None, None),
    ],
)
def test_a_value_is_a_text_and_perhaps_a_number(value: Any, text: str | None, number: float | None) -> None:
    assert of({"a": value}) == [("payload.$.a", text, number)]


def test_fields_have_paths_that_find_their_values() -> None:
    document = {"order": {"line items": [{"sku": "a", "x.y": 1}], "it's": 2, 'a "b"': 3}, "": 4, "a\nb": 5}
    found = of(document)
    assert [one.field for one in found] == [
        "payload.$.order['line items']",
        "payload.$.order['line items'][*].sku",
        "payload.$.order['line items'][*]['x.y']",
        'payload.$.order["it\'s"]',
        "payload.$.order['a \"b\"']",
    ]
    for one in found:
        assert list(values_at(document, parse_path(one.field.removeprefix("payload."))))


def test_of_an_array_each_value_counts_once_and_none_is_a_number() -> None:
    assert of({"tags": ["a", "b", "a"], "n": [5, 5]}) == [
        ("payload.$.tags", None, None),
        ("payload.$.tags[*]", "a", None),
        ("payload.$.tags[*]", "b", None),
        ("payload.$.n", None, None),
        ("payload.$.n[*]", "5", None),
    ]


def test_whatever_a_payload_holds_is_bounded() -> None:
    deep: Any = "end"
    for _ in range(200):
        deep = {"a": deep}
    assert [len(one.field) < 60 and one.text is None for one in of(deep)] == [True]
    assert len(of({f"f{n}": n for n in range(10_000)})) == MAX_FIELDS
    assert len([one for one in of(list(range(10_000))) if one.text]) == MAX_ELEMENTS
    assert of({"n" * (MAX_NAME_CHARS + 1): 1, "'\"": 1}) == []
    assert of("x" * MAX_PAYLOAD_BYTES) == []
    nested = b"[" * 100_000
    assert [one.field for one in features(ComparedMessage("a", headers="[1]", keys="{", payload=nested))] == ["address"]
