"""Envelopes as rows for COPY."""

import json
from datetime import UTC, datetime

from poisonadmin.groups.domain.failures import fingerprint, from_dead_letter
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.intake.domain.staged_rows import (
    STAGED_TYPES,
    body_row,
    dead_letter_json,
    headers_json,
    intake_row,
    staged_row,
)
from poisonadmin.messages.domain.dead_letter import DeadLetter

MESSAGE = {
    "address": "orders.eu",
    "message_id": "7",
    "payload": "Zoë",
    "headers": {"b": "2", "a": "1"},
    "conversation_id": "c",
    "bookmark": "k",
    "expires_at": "2026-01-02T03:04:05+01:00",
}


def test_the_payload_goes_into_the_body_byte_for_byte() -> None:
    assert body_row(5, intake_row(parse_envelope(MESSAGE))) == (5, b'{"a":"1","b":"2"}', "Zoë".encode(), None)


def test_the_same_headers_in_another_order_give_the_same_bytes() -> None:
    assert headers_json({"x": "1", "y": "2"}) == headers_json({"y": "2", "x": "1"})
    assert headers_json({}) == b"{}"


def test_a_staged_row_has_a_value_for_every_column() -> None:
    row = staged_row(5, intake_row(parse_envelope(MESSAGE)), "made", batch="batch:x", line=3)
    expires_at = datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert row == (5, "batch:x", 3, "orders.eu", "7", "c", "k", "text/plain; charset=utf-8", 4, expires_at, None)
    assert len(row) == len(STAGED_TYPES)


def test_a_dead_letter_carries_what_was_told_and_the_failure_made_of_it() -> None:
    told = DeadLetter(
        reason="gave up",
        exception_class="KeyError",
        exception_message="'total'",
        failed_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    kept = json.loads(dead_letter_json(told))
    assert kept["told"] == {
        "reason": "gave up",
        "exception_class": "KeyError",
        "exception_message": "'total'",
        "failed_at": "2026-01-02T00:00:00+00:00",
    }
    assert kept["error_class"] == "KeyError"
    assert kept["fingerprint"] == fingerprint(from_dead_letter(told))


def test_names_too_long_for_their_columns_are_cut() -> None:
    stack = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n' + "E" * 900 + ": no\n"
    kept = json.loads(dead_letter_json(DeadLetter(stack=stack)))
    assert len(kept["error_class"]) <= 255
    assert len(kept["cause_class"] or "") <= 255
    assert len(kept["title"]) <= 300
