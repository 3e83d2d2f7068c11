"""RELIABILITY S1: bytes in are bytes out, whatever they are."""

import base64
import json
import random
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonadmin.domain.staged_rows import headers_json
from poisonadmin.queries.message_where import member
from tests.api.conftest import Caller

HOSTILE: dict[str, bytes] = {
    "NUL": b"\x00" * 10 + b"a\x00b",
    "lone surrogate": b'"\xed\xa0\x80"',
    "escaped surrogate": b'{"a": "\\ud800"}',
    "bad UTF-8": bytes(range(256)),
    "deep nesting": b"[" * 20_000 + b"]" * 20_000,
    "long number": b"[" + b"9" * 5000 + b"]",
    "duplicate keys": b'{"a": 1, "a": 2}',
    "NaN": b'{"a": NaN, "b": -Infinity}',
    "BOM": b"\xef\xbb\xbf{}",
    "line ends": b"a\r\nb\rc\n",
    "empty": b"",
    "script": b"<script>alert(1)</script>",
    "formula": b"=cmd|' /C calc'!A0",
}


def stored(caller: Caller, envelope: dict[str, Any]) -> bytes:
    """Return the payload as it comes out again."""
    message_id = caller.post("messages/", {"address": "orders.eu", **envelope}).json()["id"]
    answer = caller.get(f"messages/{message_id}/payload/", Accept="application/octet-stream")
    assert answer["Content-Disposition"] == f'attachment; filename="message-{message_id}.payload"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Type"] == "application/octet-stream"
    return answer.content


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_payload_comes_out_as_it_went_in(name: str, admin: Caller) -> None:
    payload = HOSTILE[name]
    assert stored(admin, {"payload_base64": base64.b64encode(payload).decode()}) == payload


@pytest.mark.parametrize("text", ["", "\x00", "Zoë 🙂", '{"a":1}', "a\r\nb"])
def test_a_text_is_its_utf_8_bytes(text: str, admin: Caller) -> None:
    assert stored(admin, {"payload": text}) == text.encode()


def test_any_other_json_value_is_its_compact_text(admin: Caller) -> None:
    assert stored(admin, {"payload": {"b": [1, 2.5, None], "a": "é"}}) == '{"b":[1,2.5,null],"a":"é"}'.encode()


def test_a_batch_keeps_hostile_payloads_too(admin: Caller) -> None:
    lines = [
        json.dumps({"address": "a", "message_id": name, "payload_base64": base64.b64encode(payload).decode()})
        for name, payload in HOSTILE.items()
    ]
    answer = admin.post("messages/batch/", "\n".join(lines).encode(), Content_Type="application/x-ndjson")
    assert answer.json()["accepted"] == len(HOSTILE)
    for row in admin.get("messages/?address=a").json()["results"]:
        assert admin.get(f"messages/{row['id']}/payload/").content == HOSTILE[row["message_id"]]


def test_random_bytes_of_some_size_come_out_as_they_went_in(admin: Caller) -> None:
    payload = random.Random(7).randbytes(3_000_000)
    assert stored(admin, {"payload_base64": base64.b64encode(payload).decode()}) == payload


def test_a_payload_beyond_the_limit_is_refused(admin: Caller) -> None:
    answer = admin.post("messages/", {"address": "a", "payload": "x" * (64 * 1024 * 1024 + 1)})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_headers_come_out_as_they_went_in(admin: Caller) -> None:
    headers = {"X-Quote": 'say "hi", \\ and é', "x-empty": ""}
    answer = admin.post("messages/", {"address": "a", "payload": "x", "headers": headers})
    assert answer.json()["headers"] == headers
    assert len(admin.get("messages/?header.x-quote=say").json()["results"]) == 0
    wanted = urlencode({"header.X-Quote": headers["X-Quote"]})
    assert len(admin.get(f"messages/?{wanted}").json()["results"]) == 1


@given(
    headers=st.dictionaries(st.sampled_from(["a", "b-c", "X-Kind"]), st.text(st.characters(codec="utf-8"), max_size=20))
)
@settings(max_examples=25, deadline=None, database=None)
def test_a_message_is_found_by_each_of_its_headers(headers: dict[str, str]) -> None:
    written = headers_json(headers)
    for name, value in headers.items():
        assert member(name, value) in written
        assert member(name, value + "?") not in written
