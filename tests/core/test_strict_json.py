"""JSON from outside: what is refused, and that refusing is quick."""

import json
import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.strict_json import MAX_VALUES, InvalidJson, dumps, loads

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_what_is_dumped_is_loaded_as_it_was(value: object) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@pytest.mark.parametrize("unit", ["{},", "[],", "0,", '"a",', '{"a":1},', '"[,{",', "[[0],{}],"])
def test_a_text_of_too_many_values_is_refused_and_one_of_as_many_is_not(unit: str) -> None:
    of_each = len(re.findall(r"[\[{,]", re.sub(r'"[^"]*"', "", unit)))
    number = (MAX_VALUES - 2) // of_each
    assert loads(f"[{unit * number}0]".encode())
    with pytest.raises(InvalidJson) as refused:
        loads(f"[{unit * (number + 2)}0]".encode())
    assert refused.value.code == "too_many_values"


@given(JSON_VALUES, st.integers(1, 30))
def test_the_limit_is_on_brackets_and_commas_outside_of_strings(value: object, most: int) -> None:
    raw = dumps(value)
    found = len(re.findall(rb"[\[{,]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", raw)))
    if found <= most:
        assert loads(raw, most_values=most) == value
    else:
        with pytest.raises(InvalidJson):
            loads(raw, most_values=most)


MIB = 1024 * 1024
HOSTILE = [
    b"[" + b"{}," * (4 * MIB) + b"0]",
    b"[" * 8 * MIB,
    b"]" * 8 * MIB,
    b"[" + b"[]," * 200 + b'""' * 4 * MIB,
    b"[" + b"[]," * 200 + b'"' + b',\\"' * 4 * MIB,
    b"[" + b"[]," * 200 + b'"' + b"," * 8 * MIB,
    b"[" + b"[]," * 200 + b"\\" * 8 * MIB,
    b"[" + b"[]," * 200 + b"{} x" * 2 * MIB,
    b'{"a":' * 2 * MIB,
    b"0," * 4 * MIB,
    b"[0]" + b",0" * 4 * MIB,
]


@pytest.mark.parametrize("raw", HOSTILE, ids=range(len(HOSTILE)))
def test_megabytes_of_values_are_refused_before_they_are_parsed(raw: bytes) -> None:
    began = time.process_time()
    with pytest.raises(InvalidJson):
        loads(raw)
    assert time.process_time() - began < 2.0


@given(st.binary(max_size=200))
def test_any_bytes_are_loaded_or_refused(raw: bytes) -> None:
    with suppress(InvalidJson):
        loads(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        (b"{'a': 1}", "invalid_json"),
        (b'"a\nb"', "invalid_json"),
        (b'"\x00"', "invalid_json"),
        (b"[01]", "invalid_json"),
        (b'"\xff"', "invalid_utf8"),
        (b'"\xed\xa0\x80"', "invalid_utf8"),
        ('{"a": 1}'.encode("utf-16"), "invalid_utf8"),
        (b'{"a": 1, "a": 1}', "duplicate_key"),
        (b'{"x": [{"a": 1, "b": 2, "\\u0061": 3}]}', "duplicate_key"),
        (b"[NaN]", "invalid_number"),
        (b"[-Infinity]", "invalid_number"),
        (b"[1e999]", "invalid_number"),
        (b"[1e-999]", "invalid_number"),
        (b"[" + b"9" * 5000 + b"]", "invalid_number"),
        (b"[0." + b"9" * 5000 + b"]", "invalid_number"),
        (b"[123456789012345.67891]", "invalid_number"),
        (b"[" * 101 + b"]" * 101, "nesting_too_deep"),
        (b"[" * 20_000, "nesting_too_deep"),
        (b'{"a":' * 20_000, "nesting_too_deep"),
    ],
)
def test_what_another_parser_might_read_otherwise_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(InvalidJson) as refused:
        loads(raw)
    assert (refused.value.code, refused.value.status) == (code, 400)
    assert len(refused.value.detail) < 300


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"[" * 100 + b"]" * 100, None),
        (b"[" + b"[]," * 1000 + b"[]]", [[]] * 1001),
        (b'["' + b"[" * 500 + b'"]', ["[" * 500]),
        (b'["\\"' + b"{" * 500 + b'"]', ['"' + "{" * 500]),
        (b"[" + b"9" * 1000 + b"]", [int("9" * 1000)]),
        (b"[1.10, 1E5, 0.1, 1.7976931348623157e308]", [1.1, 100000.0, 0.1, 1.7976931348623157e308]),
        (b'"\\ud800"', "\ud800"),
    ],
)
def test_what_only_looks_dangerous_is_loaded(raw: bytes, value: object) -> None:
    loaded = loads(raw)
    assert value is None or loaded == value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (float("nan"), "invalid_json"),
        ({1, 2}, "invalid_json"),
        ([10**5000], "invalid_json"),
        ({"a": "\ud800"}, "invalid_unicode"),
    ],
)
def test_what_is_no_json_value_is_not_dumped(value: object, code: str) -> None:
    with pytest.raises(InvalidJson) as refused:
        dumps(value)
    assert refused.value.code == code


@pytest.mark.parametrize("depth", [101, 100_000])
def test_what_could_not_be_loaded_is_not_dumped(depth: int) -> None:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    with pytest.raises(InvalidJson) as refused:
        dumps(value)
    assert refused.value.code == "nesting_too_deep"
