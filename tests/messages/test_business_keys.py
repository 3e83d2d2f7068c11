"""Business keys: their syntax, what is taken, and that a hostile payload costs nothing."""

import json

import orjson
import pytest

from poisonadmin.messages.domain.business_keys import (
    MAX_PARSED_BYTES,
    MAX_VALUE_CHARS,
    InvalidBusinessKey,
    Loads,
    extract,
    parse_key,
    parsed_keys,
)
from poisonadmin.policies.domain.settings import InvalidSetting, validate_settings
from tests.fixtures.api import Caller

ORDER = {"order": {"id": 4711, "lines": [{"sku": "A-1"}, {"sku": "A-2"}], "a.b": "dotted", "is_gift": True, "n": 1.5}}

TAKEN = [
    ("$.order.id", "order.id", "4711"),
    ("order.id", "order.id", "4711"),
    ("order=$.order.id", "order", "4711"),
    ("$.order.lines[1].sku", "order.lines[1].sku", "A-2"),
    ("$['order']['a.b']", "['order']['a.b']", "dotted"),
    ("$.order.is_gift", "order.is_gift", "true"),
    ("$.order.n", "order.n", "1.5"),
    ("header:X-Order", "X-Order", "h-1"),
    ("header:x-order", "x-order", "h-1"),
    ("o=header:X-Order", "o", "h-1"),
]


@pytest.mark.parametrize(("text", "name", "value"), TAKEN)
def test_a_key_is_taken_by_its_path_or_header(text: str, name: str, value: str) -> None:
    assert extract([parse_key(text)], json.dumps(ORDER).encode(), {"X-Order": "h-1"}) == {name: value}


@pytest.mark.parametrize(
    "text", ["$.order", "$.order.lines", "$.order.lines[7].sku", "$.order.id.deeper", "$[0]", "$.x"]
)
def test_what_is_absent_or_no_single_value_is_left_out(text: str) -> None:
    assert extract([parse_key(text)], json.dumps(ORDER).encode(), {}) == {}


@pytest.mark.parametrize("text", ["$", "$.", "$..a", "$.a[", "$.a[x]", "$.a b", "header:", "a..b", "$" + ".a" * 17])
def test_what_is_neither_a_path_nor_a_header_is_refused(text: str) -> None:
    with pytest.raises(InvalidBusinessKey):
        parse_key(text)
    with pytest.raises(InvalidSetting) as raised:
        validate_settings({"business_keys": [text]})
    assert raised.value.field == "business_keys"


def test_two_keys_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidBusinessKey, match="Two keys are called 'id'"):
        parsed_keys(("$.id", "id=header:X-Id"))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00\xff",
        b"plain text",
        b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 500_000,
        b'{"id": NaN',
        b'{"id": 1} trailing',
        b'{"pad": "' + b"x" * MAX_PARSED_BYTES + b'", "id": 1}',
    ],
    ids=["empty", "bytes", "text", "deep", "open", "broken", "trailing", "too long"],
)
def test_a_hostile_payload_has_no_keys_but_those_of_its_headers(payload: bytes) -> None:
    keys = parsed_keys(("$.id", "header:X-Id"))
    assert extract(keys, payload, {"X-Id": "7"}) == {"X-Id": "7"}


@pytest.mark.parametrize("loads", [json.loads, orjson.loads])
@pytest.mark.parametrize(
    "digits", ["9007199254740993", "18446744073709551617", "-123456789012345678901234567890", "1.10", "12E30", "0.1e-7"]
)
def test_a_number_keeps_the_digits_that_came(digits: str, loads: Loads) -> None:
    payload = f'{{"id": {digits}, "other": 0.5}}'.encode()
    assert extract(parsed_keys(("$.id", "$.other")), payload, {}, loads=loads) == {"id": digits, "other": "0.5"}


def test_a_value_is_stored_as_the_database_can_hold_it() -> None:
    found = extract([parse_key("$.id")], json.dumps({"id": "a\0b" + "x" * 1000}).encode(), {})
    assert len(found["id"]) == MAX_VALUE_CHARS
    assert "\0" not in found["id"]
    assert extract([parse_key("$.id")], b'{"id": "\\ud800x"}', {}) == {"id": "?x"}


@pytest.mark.conformance("R19")
def test_a_message_is_found_by_the_digits_of_its_number(admin: Caller) -> None:
    admin.post("policies/", {"match": "orders.#", "settings": {"business_keys": ["$.id"]}})
    numbers = ["9007199254740993", "100000000000000000000001", "0.10", "1e5", "-0", "1E400"]
    for digits in numbers:
        sent = {"address": "orders.eu", "payload": f'{{"id": {digits}}}', "content_type": "application/json"}
        assert admin.post("messages/", sent).status_code == 201
    for digits in numbers:
        [found] = admin.get(f"messages/?key.id={digits}").json()["results"]
        assert found["business_keys"] == {"id": digits}
