"""The envelope: what a message may hold when it comes in, and what makes two bodies the same."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.intake.domain.envelope import MessageEnvelope, parse_envelope, parse_line
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope

LEAST = {"address": "orders.eu", "payload": "hello"}


def parsed(**fields: object) -> MessageEnvelope:
    return parse_envelope(LEAST | fields)


def refusal(fields: Any) -> tuple[str, str | None]:
    with pytest.raises(InvalidEnvelope) as refused:
        parse_envelope(fields)
    assert refused.value.detail
    return refused.value.code, refused.value.field


def test_the_least_envelope_has_an_address_and_a_payload() -> None:
    assert parsed() == MessageEnvelope(
        "orders.eu", None, b"hello", "text/plain; charset=utf-8", {}, None, None, None, None
    )


def test_a_whole_envelope_is_read() -> None:
    envelope = parsed(
        message_id="order-7",
        content_type="application/xml",
        headers={"X-Region": "eu", "trace": "a\nb"},
        conversation_id="conversation 7",
        bookmark="12|3|",
        expires_at="2026-01-31T13:00:00+01:00",
    )
    assert envelope.message_id == "order-7"
    assert envelope.content_type == "application/xml"
    assert envelope.headers == {"X-Region": "eu", "trace": "a\nb"}
    assert (envelope.conversation_id, envelope.bookmark) == ("conversation 7", "12|3|")
    assert envelope.expires_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("payload", "raw", "content_type"),
    [
        ("", b"", "text/plain; charset=utf-8"),
        ("Zoë\0\n", b"Zo\xc3\xab\0\n", "text/plain; charset=utf-8"),
        ({"name": "Zoë", "n": [1, 2.5, None]}, '{"name":"Zoë","n":[1,2.5,null]}'.encode(), "application/json"),
        ([], b"[]", "application/json"),
        (7, b"7", "application/json"),
        (None, b"null", "application/json"),
        (False, b"false", "application/json"),
    ],
)
def test_a_payload_becomes_bytes(payload: object, raw: bytes, content_type: str) -> None:
    envelope = parsed(payload=payload)
    assert (envelope.payload, envelope.content_type) == (raw, content_type)


@given(st.binary(max_size=300))
def test_bytes_in_base64_come_out_as_they_went_in(payload: bytes) -> None:
    line = {"address": "a", "payload_base64": base64.b64encode(payload).decode()}
    assert parse_line(json.dumps(line).encode()).payload == payload


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.booleans())
def test_a_text_comes_out_as_its_utf_8_bytes_however_it_was_escaped(payload: str, escaped: bool) -> None:
    line = json.dumps({"address": "a", "payload": payload}, ensure_ascii=escaped).encode()
    assert parse_line(line).payload == payload.encode()


@pytest.mark.parametrize(
    "field", ["message_id", "conversation_id", "bookmark", "content_type", "headers", "expires_at", "dead_letter"]
)
def test_null_stands_for_an_absent_field(field: str) -> None:
    assert parsed(**{field: None}) == parsed()


REFUSED = [
    ({"payload": "x"}, "missing_field", "address"),
    ({"address": None, "payload": "x"}, "missing_field", "address"),
    ({"address": "a"}, "missing_field", "payload"),
    ({"address": "a", "payload_base64": None}, "missing_field", "payload"),
    (LEAST | {"address": "a.*"}, "invalid_address", "address"),
    (LEAST | {"address": 7}, "invalid_address", "address"),
    (LEAST | {"adress": "a"}, "unknown_field", "adress"),
    (LEAST | {"payload_base64": "aGVsbG8="}, "payload_conflict", "payload"),
    ({"address": "a", "payload_base64": "a"}, "invalid_base64", "payload_base64"),
    ({"address": "a", "payload_base64": "aGVs bG8="}, "invalid_base64", "payload_base64"),
    ({"address": "a", "payload_base64": "aGVsbG8é"}, "invalid_base64", "payload_base64"),
    ({"address": "a", "payload_base64": 7}, "invalid_base64", "payload_base64"),
    (LEAST | {"payload": "\ud800"}, "invalid_unicode", "payload"),
    (LEAST | {"payload": {"a": "\udfff"}}, "invalid_unicode", "payload"),
    (LEAST | {"payload": {"a": float("inf")}}, "invalid_json", "payload"),
    (LEAST | {"message_id": ""}, "invalid_message_id", "message_id"),
    (LEAST | {"message_id": "x" * 256}, "invalid_message_id", "message_id"),
    (LEAST | {"message_id": "a\0"}, "invalid_message_id", "message_id"),
    (LEAST | {"message_id": "a\n"}, "invalid_message_id", "message_id"),
    (LEAST | {"message_id": 7}, "invalid_message_id", "message_id"),
    (LEAST | {"conversation_id": "\ud800"}, "invalid_conversation_id", "conversation_id"),
    (LEAST | {"bookmark": "\u202eabc"}, "invalid_bookmark", "bookmark"),
    (LEAST | {"content_type": "text/plain\r\nX: y"}, "invalid_content_type", "content_type"),
    (LEAST | {"content_type": "text/größe"}, "invalid_content_type", "content_type"),
    (LEAST | {"headers": ["X"]}, "invalid_headers", "headers"),
    (LEAST | {"headers": {"X": 7}}, "invalid_headers", "headers.X"),
    (LEAST | {"headers": {"X": "a\0b"}}, "invalid_headers", "headers.X"),
    (LEAST | {"headers": {"X": "\ud800"}}, "invalid_headers", "headers.X"),
    (LEAST | {"headers": {"": "a"}}, "invalid_headers", "headers"),
    (LEAST | {"headers": {"X\r\nY": "a"}}, "invalid_headers", "headers"),
    (LEAST | {"headers": {f"X-{n}": "" for n in range(101)}}, "headers_too_large", "headers"),
    (LEAST | {"headers": {"X": "é" * 32_768}}, "headers_too_large", "headers"),
    (LEAST | {"expires_at": "2026-01-31T12:00:00"}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": "2026-01-31"}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": "2026-W05-6T12:00:00Z"}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": "2026-02-30T12:00:00Z"}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": "0001-01-01T00:00:00+01:00"}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": 1769860800}, "invalid_time", "expires_at"),
    (LEAST | {"expires_at": datetime(2026, 1, 31)}, "invalid_time", "expires_at"),  # noqa: DTZ001
    ([LEAST], "not_an_object", None),
    (None, "not_an_object", None),
]


@pytest.mark.parametrize(("fields", "code", "field"), REFUSED)
def test_what_is_no_message_is_refused_by_its_field(fields: Any, code: str, field: str | None) -> None:
    assert refusal(fields) == (code, field)


def test_a_payload_beyond_the_limit_is_refused_as_too_large() -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        parsed(payload="x" * (LIMITS.payload_bytes + 1))
    assert (refused.value.code, refused.value.status) == ("payload_too_large", 413)


def test_a_payload_at_the_limit_is_taken() -> None:
    assert len(parsed(payload="x" * LIMITS.payload_bytes).payload) == LIMITS.payload_bytes


def test_headers_at_the_limits_are_taken() -> None:
    headers = {f"{n:0100}": "x" * 555 for n in range(100)}
    assert len(parsed(headers=headers).headers) == 100


@pytest.mark.parametrize("now", ["2026-01-31t12:00:00z", "2026-01-31 12:00:00+00:00", "2026-01-31T12:00:00.000000000Z"])
def test_every_spelling_of_a_time_in_rfc_3339_is_taken(now: str) -> None:
    assert parsed(expires_at=now).expires_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"address": "a", "payload": "\xff"}', "invalid_utf8"),
        (b"not json", "invalid_json"),
        (b"", "invalid_json"),
        (b'{"address": "a", "address": "b", "payload": ""}', "duplicate_key"),
        (b'{"address": "a", "payload": ' + b"[" * 20_000, "nesting_too_deep"),
        (b'{"address": "a", "payload": ' + b"1" * 5000 + b"}", "invalid_number"),
        (b'{"address": "a", "payload": NaN}', "invalid_number"),
        (b"[]", "not_an_object"),
    ],
)
def test_a_malformed_line_is_refused_as_a_whole(line: bytes, code: str) -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        parse_line(line)
    assert (refused.value.code, refused.value.field) == (code, None)


def test_a_line_beyond_the_limit_is_not_even_looked_at() -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        parse_line(bytes(LIMITS.line_bytes + 1))
    assert (refused.value.code, refused.value.status) == ("line_too_long", 413)


@given(st.binary(max_size=200))
def test_noise_is_refused_and_harms_nobody(raw: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        parse_line(raw)
