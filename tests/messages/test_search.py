"""The search box's grammar."""

from datetime import timedelta
from typing import Any

import pytest

from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.filters import parse_filter, parse_search


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
        ('"urn:order:7"', [("text", ("urn:order:7",))]),
        ('"two words"', [("text", ("two words",))]),
        ("a b", [("text", ("a",)), ("text", ("b",))]),
        ("message:m-1 conversation:c-1", [("message_id", ("m-1",)), ("conversation_id", ("c-1",))]),
        ("group:17 candidate:true", [("group", (17,)), ("candidate", (True,))]),
        ("attempts:3", [("attempts", (3,))]),
        ("header.X-Kind:gold", [("header", ("gold",))]),
        ("50%_off\\", [("text", ("50%_off\\",))]),
    ],
)
def test_words_become_terms(text: str, terms: Any) -> None:
    assert [(term.field, term.values) for term in parse_search(text)] == terms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "there is no field 'colour'"),
        ("state:NDVL", "'NDVL' is not a state"),
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
        ("https://example.org", "quotation marks"),
    ],
)
def test_a_word_that_is_not_understood_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidFilter, match=said.replace(":>", ".>")) as raised:
        parse_search(text)
    assert raised.value.parameter == "q"


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
