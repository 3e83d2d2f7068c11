"""What masks make of bodies, headers, keys and texts."""

import gzip
import json
from typing import Any

import pytest

from poisonadmin.core.domain.json_path import parse_path
from poisonadmin.core.domain.masking import MARK, MAX_BODY_BYTES, MaskInForce, Masks

SECRET = "Kanarienvogel"


def masks(**part: str) -> Masks:
    return Masks(b"key", (MaskInForce("orders.#", **part),))


def body(document: Any, path: str) -> str:
    return masks(json_path=path).body(json.dumps(document).encode()).decode()


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"a": {"b": SECRET}}, "$.a.b"),
        ({"a": [{"b": SECRET}, {"b": SECRET}]}, "$.a[*].b"),
        ({"a": [0, SECRET]}, "$.a[1]"),
        ({"a": {"b": {"c": [SECRET]}}}, "$.a.b"),
        # What the path cannot be followed into is masked.
        ({"a": json.dumps({"b": SECRET})}, "$.a.b"),
        ({"a": [{"b": SECRET}]}, "$.a.b"),
        ({"a": {"0": SECRET}}, "$.a[*]"),
        ([{"a": SECRET}], "$.a"),
        (SECRET, "$.a"),
        ({"a": SECRET}, "$"),
    ],
)
def test_a_place_in_a_body_is_masked_also_where_it_is_other_than_the_path_says(document: Any, path: str) -> None:
    found = body({"open": 1, **document} if isinstance(document, dict) else document, path)
    assert SECRET not in found
    assert MARK.search(found)


def test_the_rest_of_a_body_is_as_it_was() -> None:
    document = b'{"price":1.10,"id":12345678901234567890.5,"who":"Smith","none":null}'
    found = masks(json_path="$.who").body(document)
    assert found == document.replace(b"Smith", masks().mark("Smith").encode())
    assert masks(json_path="$.absent").body(document) == document
    assert masks(json_path="$.none").body(document) == document
    assert masks(header="who").body(document) == document


@pytest.mark.parametrize(
    "raw",
    [
        SECRET.encode(),
        b"<a>" + SECRET.encode() + b"</a>",
        gzip.compress(SECRET.encode()),
        b'{"a": "' + SECRET.encode() + b'", "a": 1}',
        b"[" * 200 + b'"' + SECRET.encode() + b'"' + b"]" * 200,
        b'{"a": "' + b"x" * MAX_BODY_BYTES + SECRET.encode() + b'"}',
    ],
    ids=["text", "XML", "compressed", "a key twice", "too deep", "too large"],
)
def test_what_cannot_be_taken_apart_is_masked_whole(raw: bytes) -> None:
    assert MARK.fullmatch(masks(json_path="$.b").body(raw).decode())
    assert MARK.fullmatch(masks().body(raw).decode())


def test_a_regular_expression_finds_what_is_escaped_and_what_is_a_name_or_a_number() -> None:
    found = masks(regex="Zoë|4711").body(b'{"Zo\\u00eb": 4711, "text": "Zo\\u00eb and 4711", "n": 47}').decode()
    assert "Zo" not in found
    assert "4711" not in found
    assert '"n":47' in found
    assert len(set(MARK.findall(found))) == 2
    assert masks(regex="Zoë").text("by Zoë") == f"by {masks().mark('Zoë')}"
    assert MARK.fullmatch(masks(regex="Zoë").body("Zoë".encode("latin-1")).decode())


def test_texts_that_may_quote_are_masked_whole() -> None:
    for part in ({"json_path": "$.a"}, {"header": "x"}, {"key": "k"}, {}):
        assert MARK.fullmatch(str(masks(**part).text("it quotes")))
    assert masks(json_path="$.a").header("X-Exception-Message", "it quotes") != "it quotes"
    assert masks(json_path="$.a").header("X-Shop", "eu") == "eu"
    assert Masks().text("it quotes") == "it quotes"


def test_keys_that_come_from_what_is_masked_are_masked() -> None:
    rules = (MaskInForce("#", json_path="$.customer"), MaskInForce("#", header="X-Who"))
    sources = {
        "customer": [("", ("customer", "id"))],
        "shop": [("", ("shop",))],
        "who": [("x-who", ())],
        "line": [("", ("lines", 0, "sku"))],
    }
    known = Masks(b"key", rules, sources=sources)
    found = {name: known.key(name, "v") == "v" for name in (*sources, "unknown")}
    assert found == {"customer": False, "shop": True, "who": False, "line": True, "unknown": False}
    assert parse_path("$.customer") == ("customer",)


def test_equal_values_stay_equal_for_one_key_only() -> None:
    assert masks().mark("a") == masks().mark(b"a") != masks().mark("b")
    assert Masks(b"other").mark("a") != masks().mark("a")


def test_rules_hold_at_their_addresses() -> None:
    assert masks().at("orders.eu")
    assert not masks().at("billing", None)
    assert masks().at("billing", "orders.eu")
