"""JSON Schemas that an administrator, or somebody through him, might write: used, or refused with a reason."""

from typing import Any

import pytest

from poisonadmin.rules.domain.json_schema import InvalidSchema, compile_schema

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "required": ["value"],
            "properties": {"value": {"type": "integer"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#node"}},
            "additionalProperties": False,
            "$anchor": "node",
        }
    },
}


def nested(depth: int) -> Any:
    document: Any = {}
    for _ in range(depth):
        document = {"a": document}
    return document


def doubling(depth: int) -> dict[str, Any]:
    """Return a schema in which each definition asks the one below it twice."""
    definitions: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n - 1}"}, {"$ref": f"#/$defs/a{n - 1}"}]} for n in range(1, depth + 1)
    }
    return {"$ref": f"#/$defs/a{depth}", "$defs": definitions | {"a0": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "object", "required": ["id"]}, {"id": 1}, {}),
        ({"properties": {"qty": {"type": "integer", "minimum": 1, "maximum": 99}}}, {"qty": 4}, {"qty": -4}),
        ({"prefixItems": [{"const": 1}], "items": {"type": "string"}}, [1, "a"], [1, 2]),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"unevaluatedProperties": False, "properties": {"a": True}}, {"a": 1}, {"b": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        (TREE, {"value": 1, "left": {"value": 2, "right": {"value": 3}}}, {"value": 1, "left": {"value": "2"}}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^a+$"}, "aa", "ab"),
        (False, [], 1),
    ],
)
def test_a_schema_says_what_draft_2020_12_says(schema: Any, valid: Any, invalid: Any) -> None:
    is_valid = compile_schema(schema)
    assert not is_valid(invalid)
    assert is_valid(valid) is (schema is not False)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "http://example.com/schema"}, "leads out of the schema"),
        ({"$ref": "file:///etc/hostname"}, "leads out of the schema"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#nobody"}, "leads nowhere"),
        ({"properties": {"a": {"$id": "http://example.com/", "$ref": "other"}}}, "root only"),
        ({"$dynamicRef": "#node"}, "not taken"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
        ({"$ref": "#"}, "refers to itself"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "refers to itself"),
        (doubling(30), "one value"),
        ({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, "one value"),
        ({"allOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}, "one value"),
        ({"anyOf": [{"minimum": n} for n in range(300)]}, "one value"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(2000)}}, "subschemas"),
        ({"type": "integr"}, "cannot be used"),
        ({"pattern": "^(?=a)(a+)+$"}, "cannot be used"),
        ({"pattern": "(a{1,1000}){1,1000}"}, "cannot be used"),
        ({"minimum": "x"}, "cannot be used"),
    ],
)
def test_a_schema_that_could_do_harm_is_refused_and_says_why(schema: Any, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        compile_schema(schema)


def test_a_regex_that_would_backtrack_for_ever_takes_its_text_s_length() -> None:
    # Backtracking would not come back before the end of the world.
    is_valid = compile_schema({"pattern": "^(a+)+$", "patternProperties": {"^(a|aa)+$": {"type": "integer"}}})
    assert not is_valid("a" * 100_000 + "b")
    assert is_valid({"a" * 10_000 + "b": "x"})


def test_a_deep_document_is_walked_once() -> None:
    assert compile_schema({"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}})(nested(90))
