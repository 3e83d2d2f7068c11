"""Streams of NDJSON: every good line becomes a message, every bad one is kept aside with its number and its reason."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.intake.commands import batch
from poisonadmin.intake.commands.batch import accept_stream
from tests.intake.store import assert_whole, line, messages, payloads, rejected, rows

pytestmark = pytest.mark.django_db

# Each payload as the JSON text of a line, and the bytes that must come out again.
HOSTILE = [
    (rb'"a\u0000b"', b"a\0b"),
    (b'"\xc2\x80\xf0\x9f\x92\xa9\x7f"', b"\xc2\x80\xf0\x9f\x92\xa9\x7f"),
    (rb'"\ud83d\udca9"', "💩".encode()),
    (rb'"\ufeff"', b"\xef\xbb\xbf"),
    (b"null", b"null"),
    (b"[" * 90 + b"]" * 90, b"[" * 90 + b"]" * 90),
    (b"18446744073709551616", b"18446744073709551616"),
    (b"0.1", b"0.1"),
    (b'{"price":1.10, "zero":-0}', b'{"price":1.10,"zero":-0}'),
    (b"[-0]", b"[-0]"),
    (b"[1E400,-1.50e-400,10000000000000000.5]", b"[1E400,-1.50e-400,10000000000000000.5]"),
    (b'""', b""),
]
BAD = [
    (b'{"address":"a","payload":NaN}', "invalid_number"),
    (b'{"address":"a","payload":' + b"9" * 5000 + b"}", "invalid_number"),
    (b'{"address":"a","payload":1e99999999999999999999}', "invalid_number"),
    (b'{"address":"a","payload":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nesting_too_deep"),
    (b'{"address":"a","address":"b","payload":1}', "duplicate_key"),
    (b'{"address":"a","payload":{"k":1,"k":2}}', "duplicate_key"),
    (b'{"address":"a","payload":"\xff"}', "invalid_utf8"),
    (b'{"address":"a","payload":"\\ud800"}', "invalid_unicode"),
    (b'{"address":"a","payload":["\\ud800",1.10]}', "invalid_unicode"),
    (b'{"address":"a","payload":[1.10,{"\\ud800":"\\ud800"}]}', "invalid_unicode"),
    (b'\xef\xbb\xbf{"address":"a","payload":1}', "invalid_json"),
    (b"\0", "invalid_json"),
    (b"[]", "not_an_object"),
    (b"{}", "missing_field"),
    (b'{"address":"a"}', "missing_field"),
    (b'{"address":"a b","payload":1}', "invalid_address"),
    (b'{"address":"a","payload":1,"extra":1}', "unknown_field"),
    (b'{"address":"a","payload":1,"payload_base64":"eA=="}', "payload_conflict"),
    (b'{"address":"a","payload_base64":"!"}', "invalid_base64"),
    (b'{"address":"a","payload":1,"message_id":"a\\u0000"}', "invalid_message_id"),
    (b'{"address":"a","payload":1,"headers":{"a":"\\u0000"}}', "invalid_headers"),
    (b'{"address":"a","payload":1,"expires_at":"2026-01-01T00:00:00"}', "invalid_time"),
    (b'{"address":"a","payload":1,"dead_letter":7}', "invalid_dead_letter"),
]


def test_a_hostile_payload_comes_out_as_it_went_in() -> None:
    lines = (b'{"address":"a","payload":%s}\n' % text for text, _ in HOSTILE)
    result = accept_stream(lines, principal=SYSTEM)
    assert (result.accepted, result.rejected) == (len(HOSTILE), [])
    assert payloads() == [payload for _, payload in HOSTILE]
    assert_whole()


def test_every_bad_line_is_kept_with_its_number_reason_and_bytes() -> None:
    lines = [line(message_id="first"), *(raw + b"\n" for raw, _ in BAD), b"\n", line(message_id="last")]
    result = accept_stream(lines, principal=SYSTEM)
    expected = [(number, code) for number, (_, code) in enumerate(BAD, start=2)]
    assert [(bad.line, bad.code) for bad in result.rejected] == expected
    assert rejected() == [(number, code, raw) for (number, code), (raw, _) in zip(expected, BAD, strict=True)]
    assert (result.accepted, result.rejected_count) == (2, len(BAD))
    assert {message_id for _, message_id in messages()} == {"first", "last"}
    assert_whole()


def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it() -> None:
    assert accept_stream([b"\xef\xbb", b"\xbf" + line()], principal=SYSTEM).accepted == 1


def test_the_same_message_again_is_a_duplicate_and_another_body_a_conflict() -> None:
    one, other = line(message_id="7", payload="one"), line(message_id="7", payload="other", headers={"h": "v"})
    result = accept_stream([one, one, other, line("orders.us", message_id="7", payload="one")], principal=SYSTEM)
    assert (result.accepted, result.duplicates, result.rejected_count) == (2, 1, 1)
    assert [(bad.line, bad.code) for bad in result.rejected] == [(3, "message_id_conflict")]
    again = accept_stream([other, one], principal=SYSTEM)
    assert (again.accepted, again.duplicates, again.rejected_count) == (0, 1, 1)
    assert messages() == {("orders.eu", "7"): ("TBDL", b"one"), ("orders.us", "7"): ("TBDL", b"one")}
    assert_whole()


@pytest.mark.parametrize(
    "difference",
    [{"payload": "y"}, {"content_type": "a/b"}, {"headers": {"h": "2"}}, {"conversation_id": "d"}, {"bookmark": "l"}],
)
def test_any_part_of_the_body_makes_a_conflict(difference: dict[str, Any]) -> None:
    fields: Any = {"message_id": "7", "headers": {"h": "1"}, "conversation_id": "c", "bookmark": "k"}
    result = accept_stream([line(**fields), line(**fields | difference)], principal=SYSTEM)
    assert (result.accepted, result.duplicates, result.rejected_count) == (1, 0, 1)


def test_headers_in_another_order_are_the_same_body() -> None:
    one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert accept_stream([line(message_id="7", headers=h) for h in (one, other)], principal=SYSTEM).duplicates == 1


def test_a_conflict_is_kept_as_a_line_that_can_be_handed_in_again() -> None:
    told = {
        "reason": "gone",
        "delivery_count": 3,
        "original_address": "orders.home",
        "failed_at": "2026-01-02T03:04:05Z",
    }
    second: Any = {"headers": {"h": "ü\n"}, "conversation_id": "c", "bookmark": "k", "dead_letter": told}
    accept_stream([line(message_id="7"), line(message_id="7", payload="\0" * 100, **second)], principal=SYSTEM)
    [(_, _, raw)] = rejected()
    kept = json.loads(raw)
    kept["message_id"] = "8"
    assert accept_stream([json.dumps(kept).encode()], principal=SYSTEM).accepted == 1
    assert messages()["orders.eu", "8"] == ("NDLV", b"\0" * 100)
    assert rows(
        """SELECT convert_from(headers, 'UTF8'), conversation_id, bookmark, note
           FROM body JOIN envelope USING (id) JOIN history ON history.message_id = envelope.id
           WHERE envelope.message_id = '8'"""
    ) == [('{"h":"ü\\n"}', "c", "k", "gone")]


def test_a_line_for_an_address_out_of_scope_is_not_found() -> None:
    limited = principal("ann", Role.OPERATOR, ["orders.#"])
    moved = line("orders.eu", dead_letter={"original_address": "secret.x"})
    result = accept_stream([line("orders.eu"), line("secret.x"), moved], principal=limited)
    assert (result.accepted, [(bad.line, bad.code) for bad in result.rejected]) == (
        1,
        [(2, "not_found"), (3, "not_found")],
    )
    assert rows("SELECT count(*) FROM address WHERE name LIKE 'secret%%'") == [(0,)]


def test_a_viewer_may_not_hand_messages_in() -> None:
    with pytest.raises(NotAllowed):
        accept_stream([line()], principal=principal("vic", Role.VIEWER))
    assert messages() == {}


def test_messages_without_an_id_are_each_given_their_own() -> None:
    assert accept_stream([line(), line()], principal=SYSTEM).accepted == 2


def test_slices_that_are_committed_stay_when_the_stream_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "SLICE_ROWS", 2)

    def broken() -> Iterator[bytes]:
        yield line(message_id="1") + line(message_id="2") + line(message_id="3")
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        accept_stream(broken(), principal=SYSTEM)
    assert {message_id for _, message_id in messages()} == {"1", "2"}
    assert_whole()


def test_only_so_many_bad_lines_are_named_and_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "NAMED_REJECTIONS", 3)
    result = accept_stream([b"x\n" * 10], principal=SYSTEM)
    assert (result.rejected_count, [bad.line for bad in result.rejected]) == (10, [1, 2, 3])
    assert len(rejected()) == 10


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 2000), max_size=8), st.integers(1, 7))
def test_chunks_and_slices_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, places: list[int], slice_rows: int
) -> None:
    monkeypatch.setattr(batch, "SLICE_ROWS", slice_rows)
    lines = [line(message_id=str(n % 7), payload=str(n % 11 < 9)) for n in range(20)] + [b"x\n"]
    text = b"".join(lines)
    edges = [0, *sorted(place % len(text) for place in places), len(text)]
    with transaction.atomic():
        result = accept_stream((text[start:end] for start, end in pairwise(edges)), principal=SYSTEM)
        assert (result.accepted, result.duplicates) == (7, 11)
        assert [bad.line for bad in result.rejected] == [10, 11, 21]
        assert_whole()
        transaction.set_rollback(True)
