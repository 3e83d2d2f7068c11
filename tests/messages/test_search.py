"""The search box's grammar."""

from datetime import timedelta
from typing import Any

import pytest

from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.search.domain.filters import parse_filter, parse_search


def test_the_example_of_the_design_is_understood() -> None:
    text = 'address:orders.# state:NDLV error:"Timeout" attempts:>3 since:24h !reason:returned customer-77'
    assert [(term.field, term.operator, term.values, term.negated) for term in parse_search(text)] == [
        ("address", "=", ("orders.#",), False),
        ("state", "=", (State.NDLV,), False),
        ("error", "=", ("Timeout",), False),
        ("reason", "=", (Reason.RETURNED,), True),
        ("attempts", ">", (3,), False),
        ("age", "<", (timedelta(hours=24),), False),
        ("text", "=", ("customer-77",), False),
    ]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("   ", []),
        ("state:ndlv state:FAIL", [("state", (State.NDLV, State.FAIL))]),
        ('state:"needs decision"', [("state", (State.NDLV,))]),
        ('"urn:order:7"', [("text", ("urn:order:7",))]),
        ('"two words"', [("text", ("two words",))]),
        ("a b", [("text", ("a",)), ("text", ("b",))]),
        ("message:m-1 conversation:c-1", [("message_id", ("m-1",)), ("conversation_id", ("c-1",))]),
        ("group:17 candidate:true", [("group", (17,)), ("candidate", (True,))]),
        ("attempts:3", [("attempts", (3,))]),
        ("header.X-Kind:gold", [("header", ("gold",))]),
        ("50%_off\\", [("text", ("50%_off\\",))]),
        ('error:"C:\\"', [("error", ("C:\\",))]),
        ('payload:"customer-77"', [("payload", ("customer-77",))]),
        ("payload:a payload:b", [("payload", ("a",)), ("payload", ("b",))]),
        (r'payload:"{\"id\": \"7\"}" x', [("payload", ('{"id": "7"}',)), ("text", ("x",))]),
        ("payload.$.a:7", [("payload_at", (7, "7"))]),
        ('payload.$.a:"7"', [("payload_at", ("7",))]),
        ("payload.$.a:true payload.$.a:x", [("payload_at", (True, "true", "x"))]),
    ],
)
def test_words_become_terms(text: str, terms: Any) -> None:
    assert [(term.field, term.values) for term in parse_search(text)] == terms


@pytest.mark.parametrize(
    ("text", "path", "operator", "values"),
    [
        ("payload.$.order.total:>100", "$.order.total", ">", (100,)),
        ("payload.$.order.total:<=-0.5", "$.order.total", "<=", (-0.5,)),
        ("payload.$.items[*].sku:a", "$.items[*].sku", "=", ("a",)),
        ("payload.$['a name'].b:*", "$['a name'].b", "present", ()),
        ('payload.$["a:b"]:null', '$["a:b"]', "=", (None, "null")),
        ("payload.$:7", "$", "=", (7, "7")),
    ],
)
def test_a_place_in_a_payload_is_compared(text: str, path: str, operator: str, values: Any) -> None:
    (term,) = parse_search(text)
    assert (term.field, term.name, term.operator, term.values) == ("payload_at", path, operator, values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "there is no field 'colour'"),
        ("state:NDVL", "'NDVL' is not a state; those are TBDL .Waiting., "),
        ("attempts:many", "attempts:>3"),
        ("since:yesterday", "since:24h"),
        ("since:999999w", "since:24h"),
        ("address:a..b", "a word between dots is empty"),
        ('"open', "quotation mark"),
        ('a"b', "quotation mark"),
        ("state:", "has no value"),
        ('state:""', "has no value"),
        ("!", "has no value"),
        ("x " * 41, "at most 40 words"),
        ("payload.$.a:>b", "compared with a number"),
        ("payload.$..a:1", "is not a path"),
        ("payload.a:1", "there is no field 'payload.a'"),
        ("payload:" + " payload:".join("abcdefghijk"), "at most 10 words about payloads"),
        ("https://example.org", "quotation marks"),
    ],
)
def test_a_word_that_is_not_understood_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidFilter, match=said.replace(":>", ".>")) as raised:
        parse_search(text)
    assert raised.value.parameter == "q"


def test_a_filter_names_only_so_many_headers_and_keys() -> None:
    names = [f"key.k{n}" for n in range(15)]
    with pytest.raises(InvalidFilter, match="20 headers and business keys"):
        parse_filter({name: ["v"] for name in names} | {"q": [" ".join(f"header.h{n}:v" for n in range(6))]})
    assert len(parse_filter({name: ["v"] for name in names}).terms) == 15


def test_a_filter_says_itself_as_url_parameters() -> None:
    given = {"state": ["NDLV", "FAIL"], "address": ["orders.#"], "group": [""], "q": ["customer-7"]}
    found = parse_filter(given)
    assert found.params == (("state", "NDLV"), ("state", "FAIL"), ("address", "orders.#"), ("q", "customer-7"))
    again: dict[str, list[str]] = {}
    for name, value in found.params:
        again.setdefault(name, []).append(value)
    assert parse_filter(again) == found


@pytest.mark.parametrize("name", ["stat", "State", "key.", "header.", "", "limit", "x" * 5000])
def test_a_parameter_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter({name: ["x"]})
    assert raised.value.code == "unknown_parameter"
    assert len(raised.value.detail) < 1000


def test_a_moment_needs_an_offset_and_forgives_an_unescaped_plus() -> None:
    (term,) = parse_filter({"received_after": ["2026-01-01T00:00:00 02:00"]}).terms
    assert term.values[0].isoformat() == "2026-01-01T00:00:00+02:00"
    for text in ("2026-01-01T00:00:00", "2026-01-01", "now", "9999-12-31T23:59:59Z"):
        with pytest.raises(InvalidFilter):
            parse_filter({"received_after": [text]})
