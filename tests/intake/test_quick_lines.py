"""Quick reading of lines: whatever it says, the strict parser says too."""

import json
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.intake.domain.envelope import parse_line
from poisonadmin.intake.domain.quick_lines import quick_reader
from poisonadmin.intake.domain.staged_rows import IntakeRow, intake_row
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope

quick = quick_reader(orjson.loads, orjson.dumps, partial(orjson.dumps, option=orjson.OPT_SORT_KEYS))

TEXTS = st.text(
    st.sampled_from(list('ab"\\/:{}[],é💩\0\x01\x1f\x7f\n\u2028 ')) | st.characters(exclude_categories=["Cs"]),
    max_size=8,
)
NUMBERS = (
    st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([-0.0, 1e16, 1e22, 5e-324, 2**63, 2**64])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
TIMES = st.sampled_from(
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "soon", "2026-01-02t03:04:05.123456+01:00", 5, None]
)
ENVELOPES = st.fixed_dictionaries(
    {"address": st.sampled_from(["a", "orders.eu", "", "a b", "a..b", 5]), "payload": VALUES},
    optional={
        "message_id": TEXTS | st.none() | st.text(min_size=254, max_size=257),
        "conversation_id": TEXTS,
        "bookmark": TEXTS,
        "content_type": st.sampled_from(["text/plain", "é", "", "a\0"]),
        "headers": st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=4) | st.none() | TEXTS,
        "expires_at": TIMES,
        "payload_base64": st.just("eA=="),
        "dead_letter": st.just({}),
        "unknown": TEXTS,
    },
)


def strictly(raw: bytes) -> IntakeRow | None:
    try:
        return intake_row(parse_line(raw))
    except InvalidEnvelope:
        return None


def agrees(raw: bytes) -> bool:
    return quick(raw) in (None, strictly(raw))


@given(ENVELOPES, st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (" ,", "\t:\r ")]))
def test_what_it_reads_the_strict_parser_reads_alike(
    fields: dict[str, Any], ascii_only: bool, separators: tuple[str, str]
) -> None:
    text = json.dumps(fields, ensure_ascii=ascii_only, separators=separators)
    assert agrees(text.encode("utf-8", "surrogatepass"))


@given(ENVELOPES, st.data())
def test_it_agrees_on_damaged_lines_too(fields: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(json.dumps(fields, ensure_ascii=False).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b'"', b"\\", b"", b":", b"{", b"}", b",", b"1", b"\xff"])
        )
    assert agrees(bytes(raw))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["address", "payload", "headers", "bookmark"]),
            TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2),
        ),
        max_size=6,
    )
)
def test_it_never_overlooks_a_key_that_is_there_twice(members: list[tuple[str, Any]]) -> None:
    written = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in members)
    assert agrees(f"{{{written}}}".encode())


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"address":"a","payload":"x","payload":"x"}',
        rb'{"address":"a","payload":{"k":1,"k":1}}',
        rb'{"address":"a","payload":{"k":"\\","k":"\\"}}',
        rb'{"address":"a","payload":"x","headers":{"h":"1","h":"1"}}',
        rb'{"address":"a","payload":":","message_id":"1","message_id":"1"}',
        rb'{"address":"a","payload":"\"","bookmark":"b","bookmark":"b"}',
        rb'{"address":"a","payload":"abc\\","bookmark":"\"abc\\","bookmark":"\"abc\\"}',
        rb'{"address":"a","payload":1,"payload":1}',
        rb'{"address":"a","address":"a","payload":1}',
    ],
)
def test_a_key_that_is_there_twice_is_left_to_the_strict_parser(raw: bytes) -> None:
    assert quick(raw) is None


@pytest.mark.parametrize(
    "raw",
    [
        b'{"address":"a","payload":1.5}',
        b'{"address":"a","payload":-0}',
        b'{"address":"a","payload":[1,-0 ]}',
        b'{"address":"a","payload":18446744073709551616}',
        b'{"address":"a","payload":[' + b"[" * 120 + b"]" * 120 + b"]}",
        b'{"address":"a","payload":"' + b"x" * 70_000 + b'"}',
        b'{"address":"a","payload":null}',
        b'{"address":"a","payload_base64":"eA=="}',
        b'{"address":"a","payload":"x","dead_letter":{}}',
        b"[]",
        b"",
    ],
)
def test_what_it_cannot_vouch_for_it_leaves_to_the_strict_parser(raw: bytes) -> None:
    assert quick(raw) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "orders.eu", "message_id": "7", "payload": '{"a":"b\\n"}', "headers": {"b": "ü", "a": "1"}},
        {
            "address": "orders.eu",
            "payload": {"deep": [{"er": "ü\n"}], "n": -0, "big": 2**64 - 1},
            "expires_at": "2026-01-02T03:04:05Z",
        },
        {"address": "orders.eu", "payload": "", "conversation_id": "c", "bookmark": "k", "content_type": "a/b"},
        {"address": "orders.eu", "payload": True},
    ],
)
def test_common_lines_are_read_quickly(fields: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        raw = json.dumps(fields, ensure_ascii=ascii_only).encode()
        assert quick(raw) == strictly(raw) is not None
