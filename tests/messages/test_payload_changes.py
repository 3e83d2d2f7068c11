"""What a change makes of one payload and its headers, and what it does not apply to."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.strict_json import InvalidJson
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.params import InvalidOperation, checked_params
from poisonadmin.decisions.queries.payload_changes import MessageContent, NotChanged, PayloadChange, diff

ADD = {"op": "add", "path": "/a", "value": 1}


def changed(held: bytes, *, most: int = 10**6, **params: Any) -> tuple[bytes, bytes]:
    """Return payload and headers after the change."""
    wanted = PayloadChange(checked_params(OperationAction.PATCH, params))
    return wanted.apply(MessageContent(held, b"{}"), target="orders.eu", most_bytes=most)[:2]


def refusal(held: bytes, **params: Any) -> tuple[str, str | None]:
    """Return why the change does not apply."""
    with pytest.raises(NotChanged) as error:
        changed(held, **params)
    return error.value.code, error.value.detail


@pytest.mark.parametrize(
    ("payload", "operation", "after"),
    [
        (b'{"b": 1.10, "n": 1e5, "i": 12345678901234567890123, "z": -0}', ADD,
         b'{"b":1.10,"n":1e5,"i":12345678901234567890123,"z":-0,"a":1}'),
        (b'{"price":0.1}', {"op": "test", "path": "/price", "value": 0.1}, None),
        (b'{"n":[1,2]}', {"op": "add", "path": "/n/-", "value": 3}, b'{"n":[1,2,3]}'),
        (b'{"n":[1,2]}', {"op": "add", "path": "/n/0", "value": "0"}, b'{"n":["0",1,2]}'),
        (b'{"a~b/c":1}', {"op": "replace", "path": "/a~0b~1c", "value": None}, b'{"a~b/c":null}'),
        (b'{"a":{"b":1}}', {"op": "move", "from": "/a/b", "path": "/c"}, b'{"a":{},"c":1}'),
        (b'"text"', {"op": "replace", "path": "", "value": {"was": "text"}}, b'{"was":"text"}'),
        ("{\"name\":\"Zoë\"}".encode(), ADD, "{\"name\":\"Zoë\",\"a\":1}".encode()),
        (b'{"name":"Zo\\u00eb \\ud800"}', ADD, b'{"name":"Zo\\u00eb \\ud800","a":1}'),
        ("{\"name\":\"Zoë \\ud800\"}".encode(), ADD, b'{"name":"Zo\\u00eb \\ud800","a":1}'),
    ],
)  # fmt: skip
def test_a_patch_changes_what_it_names_and_keeps_numbers_as_they_were_written(
    payload: bytes, operation: dict[str, Any], after: bytes | None
) -> None:
    if after is None:
        assert refusal(payload, json_patch=[operation]) == ("unchanged", None)
    else:
        assert changed(payload, json_patch=[operation]) == (after, b"{}")


@pytest.mark.parametrize(
    ("payload", "operation", "why"),
    [
        (b"no json", ADD, ("not_json", "invalid_json")),
        (b'{"a":1,"a":2}', ADD, ("not_json", "duplicate_key")),
        (b"[" * 500 + b"]" * 500, ADD, ("not_json", "nesting_too_deep")),
        (b'{"n":' + b"9" * 5000 + b"}", ADD, ("not_json", "invalid_number")),
        (b'{"n":NaN}', ADD, ("not_json", "invalid_number")),
        (b"\xff", ADD, ("not_json", "invalid_utf8")),
        (b'{"b":1}', {"op": "remove", "path": "/a"}, ("patch_failed", "operation 1: remove /a")),
        (b'{"b":1}', {"op": "test", "path": "/b", "value": True}, ("patch_failed", "operation 1: test /b")),
        (b'{"b":[1]}', {"op": "add", "path": "/b/01", "value": 1}, ("patch_failed", "operation 1: add /b/01")),
        (b'{"b":[1]}', {"op": "add", "path": "/b/9", "value": 1}, ("patch_failed", "operation 1: add /b/9")),
        (b'{"a": 1}', ADD, ("unchanged", None)),
    ],
)
def test_what_a_patch_does_not_apply_to(payload: bytes, operation: dict[str, Any], why: tuple[str, str | None]) -> None:
    assert refusal(payload, json_patch=[operation]) == why


def test_copies_that_double_a_document_are_stopped() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/c{n}"} for n in range(60)]
    assert refusal(b'{"a":[1,2,3,4,5,6,7,8]}', json_patch=doubling)[0] == "too_large_to_patch"
    text = b'{"a":"' + b"x" * 500_000 + b'"}'
    assert refusal(text, json_patch=doubling[:8])[0] == "too_large_to_patch"
    # What is removed at once was copied all the same.
    there_and_back = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "remove", "path": "/b"}]
    many = b'{"a":[' + b",".join([b"[]"] * 3000) + b"]}"
    assert refusal(many, json_patch=there_and_back * 34)[0] == "too_large_to_patch"


def test_a_result_that_the_address_does_not_take_is_refused() -> None:
    assert refusal(b"{}", json_patch=[{**ADD, "value": "x" * 100}], most=50) == ("oversized", "orders.eu")
    assert refusal(b"{}", payload="x" * 100, most=50) == ("oversized", "orders.eu")


def test_headers_are_set_and_removed_whatever_their_case() -> None:
    headers = b'{"X-Kind":"push","x-tenant":"eu","Trace":"1"}'
    change = {"set": {"x-kind": "pull", "X-New": "y"}, "remove": ["X-TENANT"]}
    wanted = PayloadChange(checked_params(OperationAction.PATCH, {"headers": change}))
    payload, after, _ = wanted.apply(MessageContent(b"\xff", headers), target="x", most_bytes=10)
    assert payload == b"\xff"
    assert json.loads(after) == {"Trace": "1", "x-kind": "pull", "X-New": "y"}


def test_what_a_broker_keeps_typed_is_told_which_headers_were_changed() -> None:
    content = MessageContent(b"", b'{"a":"1","b":"2"}', b'{"broker":"kafka","headers":[["a",{"base64":"MQ=="}]]}')
    for headers in ({"set": {"A": "x", "c": "3"}}, {"set": {"a": "y"}, "remove": ["B"]}):
        wanted = PayloadChange(checked_params(OperationAction.PATCH, {"headers": headers}))
        content = MessageContent(*wanted.apply(content, target="x", most_bytes=10))
    assert json.loads(content.headers) == {"a": "y", "c": "3"}
    transport = json.loads(content.transport or b"")
    assert transport["headers"] == [["a", {"base64": "MQ=="}]]
    assert transport["edited_headers"] == {"a": "y", "b": None, "c": "3"}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "params.json_patch"),
        ({"json_patch": []}, "params.json_patch"),
        ({"json_patch": [ADD] * 101}, "params.json_patch"),
        ({"json_patch": [{**ADD, "value": "x" * 70_000}]}, "params.json_patch"),
        ({"json_patch": [ADD, {"op": "append", "path": "/a", "value": "b"}]}, "params.json_patch.1"),
        ({"json_patch": [{"op": "add", "path": "/a"}]}, "params.json_patch.0"),
        ({"json_patch": [{**ADD, "path": "a"}]}, "params.json_patch.0"),
        ({"json_patch": [{**ADD, "path": "/a~2"}]}, "params.json_patch.0"),
        ({"json_patch": [{**ADD, "from": "/b"}]}, "params.json_patch.0"),
        ({"json_patch": ["add"]}, "params.json_patch.0"),
        ({"json_patch": [ADD], "payload": "x"}, "params.payload"),
        ({"payload": "a\0b"}, "params.payload"),
        ({"payload": "\ud800"}, "params.payload"),
        ({"payload": "x" * 300_000}, "params.payload"),
        ({"headers": {}}, "params.headers"),
        ({"headers": {"set": {}}}, "params.headers"),
        ({"headers": {"set": {"PoisonAdmin-Attempt": "1"}}}, "params.headers"),
        ({"headers": {"set": {"Content-Length": "1"}}}, "params.headers"),
        ({"headers": {"remove": ["transfer-encoding"]}}, "params.headers"),
        ({"headers": {"set": {"X": "a\r\nY: b"}}}, "params.headers"),
        ({"headers": {"set": {"X": 1}}}, "params.headers"),
        ({"headers": {"set": {"X": "1"}, "remove": ["x"]}}, "params.headers"),
        ({"patch": []}, "params.patch"),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOperation) as error:
        checked_params(OperationAction.PATCH, params)
    assert error.value.field == field


def test_a_diff_shows_json_a_member_a_line_and_says_nothing_of_what_is_too_long() -> None:
    before = MessageContent(b'{"a":1,"b":{"c":1.10}}', b'{"X":"1"}')
    after = MessageContent(b'{"a":1,"b":{"c":2}}', b'{"X":"2"}')
    lines = diff(before, after) or []
    assert {"-X: 1", "+X: 2", '-    "c": 1.10', '+    "c": 2'} <= set(lines)
    long = MessageContent(b"x\n" * 3000, b"{}")
    assert diff(before, long) is None
    assert diff(MessageContent(b"\xff", b"{}"), after) is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
_POINTERS = st.lists(st.sampled_from(["a", "0", "1", "-", "01", "~1", ""]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
_OPERATIONS = st.one_of(
    st.builds(lambda op, path, value: {"op": op, "path": path, "value": value},
              st.sampled_from(["add", "replace", "test"]), _POINTERS, st.just({"a": [1, True]}) | st.integers()),
    st.builds(lambda op, path, source: {"op": op, "path": path, "from": source},
              st.sampled_from(["move", "copy"]), _POINTERS, _POINTERS),
    st.builds(lambda path: {"op": "remove", "path": path}, _POINTERS),
)  # fmt: skip


@given(_VALUES)
def test_exact_json_comes_out_as_it_went_in(value: Any) -> None:
    raw = json.dumps(value, default=lambda one: float(one) if isinstance(one, Decimal) else one).encode()
    read = strict_json.loads(raw, exact=True)
    again = strict_json.dumps_exact(read, most_bytes=10**6, is_ascii=True)
    assert again == json.dumps(json.loads(raw), separators=(",", ":")).encode()
    with pytest.raises(InvalidJson):
        strict_json.dumps_exact([read, "x"], most_bytes=3)


@given(_VALUES, st.lists(_OPERATIONS, min_size=1, max_size=4))
def test_any_patch_gives_json_or_says_why_not(value: Any, operations: list[dict[str, Any]]) -> None:
    payload = json.dumps(value, default=str).encode()
    try:
        after, _ = changed(payload, json_patch=operations)
    except NotChanged:
        return
    assert strict_json.loads(after, exact=True) != strict_json.loads(payload, exact=True)
