"""Header tables of AMQP 0-9-1: what a stranger wrote there harms nobody."""

import json
import struct
from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as some

from poisonadmin.intake.domain.staged_rows import dead_letter_json
from workers.brokers.contract import Incoming
from workers.brokers.rabbitmq.encoding import as_text, content_frame, fields, read_content, text_field, value_of
from workers.brokers.rabbitmq.messages import incoming_of


def arrived(table: bytes, payload: bytes = b"", **properties: Any) -> Incoming:
    """Return a message with these bytes as its header table."""
    arguments = b"\x01c" + struct.pack(">QB", 7, 1) + b"\x00\x03dlq"
    return incoming_of((arguments, content_frame(len(payload), properties, table), payload), "dlq")


def table_of(headers: dict[str, Any]) -> bytes:
    """Return the table as another client writes it."""
    frame = b"\x00\x3c\x00\x00" + bytes(8) + b"".join(pika.BasicProperties(headers=headers).encode())
    return read_content(frame).headers


def test_every_kind_of_field_is_read_as_another_client_wrote_it() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    written = {
        "text": "grün", "bytes": b"\xff\x00", "small": 7, "large": 2**40, "yes": True, "none": None, "at": at,
        "list": ["a", 1], "table": {"inner": {"deep": "x"}},
    }  # fmt: skip

    raw = table_of(written)

    read = {name: value_of(raw, kind, value, end) for name, kind, _, value, end in fields(raw)}
    assert read == written


def test_what_is_not_a_dead_letter_header_goes_back_with_the_bytes_it_came_with() -> None:
    kept = table_of({"tenant": "eu", "n": 2**40, "raw": b"\xff"})
    death = {"queue": "orders", "reason": "rejected", "count": 1, "routing-keys": ["orders"], "exchange": ""}

    taken = arrived(table_of({"x-death": [death], "CC": ["elsewhere"]}) + kept + text_field("PoisonAdmin-Attempt", "3"))

    assert taken.dead_letter.original_address == "orders"
    assert b64decode(taken.transport["headers"]["base64"]) == kept
    assert taken.headers["tenant"] == "eu"


@given(some.binary(max_size=400))
def test_no_table_stops_the_reading(table: bytes) -> None:
    taken = arrived(table)

    json.dumps(taken.transport)
    dead_letter_json(taken.dead_letter)


_values: some.SearchStrategy[Any] = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**31), 2**62) | some.text(max_size=20) | some.binary(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text("abcé", max_size=9), inner, max_size=3),
    max_leaves=8,
)
_told = ("x-death", "x-first-death-queue", "MT-Fault-InputAddress", "x-original-exchange", "PoisonAdmin-Message-Id")


@given(some.dictionaries(some.sampled_from(_told) | some.text("ab", max_size=5), _values, max_size=6))
def test_dead_letter_headers_may_hold_anything(headers: dict[str, Any]) -> None:
    taken = arrived(table_of(headers))

    dead_letter_json(taken.dead_letter)
    assert taken.headers.keys() == headers.keys()


def test_a_table_nested_beyond_measure_is_shown_as_its_bytes() -> None:
    raw = b""
    for _ in range(5000):
        raw = b"\x01aF" + struct.pack(">I", len(raw)) + raw

    taken = arrived(raw)

    assert len(taken.headers["a"]) > 5000
    assert as_text(b"\xff") in {"/w=="}


@pytest.mark.parametrize("headers", [{}, {"x-death": []}, {"x-death": "rejected"}, {"x-death": [{"count": "many"}]}])
def test_without_a_sound_x_death_the_original_queue_is_not_known(headers: dict[str, Any]) -> None:
    assert arrived(table_of(headers)).dead_letter.original_address is None
