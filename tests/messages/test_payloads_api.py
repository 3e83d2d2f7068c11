"""Bytes in are bytes out, whatever they are."""

import base64
import gzip
import json
import random
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonadmin.intake.domain.staged_rows import headers_json
from poisonadmin.search.queries.meanings import header_member
from tests.fixtures.api import Caller
from tests.hostile_payloads import PAYLOADS


def stored(caller: Caller, envelope: dict[str, Any]) -> bytes:
    """Return the payload as it comes out again."""
    message_id = caller.post("messages/", {"address": "orders.eu", **envelope}).json()["id"]
    answer = caller.get(f"messages/{message_id}/payload/", Accept="application/octet-stream")
    assert answer["Content-Disposition"] == f'attachment; filename="message-{message_id}.payload"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Type"] == "application/octet-stream"
    whole: bytes = answer.getvalue()
    assert answer["Content-Length"] == str(len(whole))
    return whole


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_payload_comes_out_as_it_went_in(name: str, admin: Caller) -> None:
    payload = PAYLOADS[name]
    assert stored(admin, {"payload_base64": base64.b64encode(payload).decode()}) == payload


@pytest.mark.parametrize("text", ["", "\x00", "Zoë 🙂", '{"a":1}', "a\r\nb"])
def test_a_text_is_its_utf_8_bytes(text: str, admin: Caller) -> None:
    assert stored(admin, {"payload": text}) == text.encode()


def test_any_other_json_value_is_its_compact_text(admin: Caller) -> None:
    assert stored(admin, {"payload": {"b": [1, 2.5, None], "a": "é"}}) == '{"b":[1,2.5,null],"a":"é"}'.encode()


@pytest.mark.parametrize(
    "text",
    ["1.10", "-0", "1E400", '{"a":[0.50,-0.0,1e5,2.5,7],"b":"1.10"}', pytest.param("1" * 990 + ".50", id="long")],
)
def test_a_number_stays_as_its_sender_has_written_it(text: str, admin: Caller) -> None:
    sent = f'{{"address": "orders.eu", "message_id": "one", "payload": {text}}}'.encode()
    message_id = admin.post("messages/", sent).json()["id"]
    assert admin.get(f"messages/{message_id}/payload/").getvalue().decode() == text
    assert admin.post("messages/", sent).status_code == 200, "the same again"


def test_a_batch_keeps_hostile_payloads_too(admin: Caller) -> None:
    lines = [
        json.dumps({"address": "a", "message_id": name, "payload_base64": base64.b64encode(payload).decode()})
        for name, payload in PAYLOADS.items()
    ]
    answer = admin.post("messages/batch/", "\n".join(lines).encode(), Content_Type="application/x-ndjson")
    assert answer.json()["accepted"] == len(PAYLOADS)
    for row in admin.get("messages/?address=a").json()["results"]:
        assert admin.get(f"messages/{row['id']}/payload/").content == PAYLOADS[row["message_id"]]


def test_random_bytes_of_some_size_come_out_as_they_went_in(admin: Caller) -> None:
    payload = random.Random(7).randbytes(3_000_000)
    assert stored(admin, {"payload_base64": base64.b64encode(payload).decode()}) == payload


def test_a_payload_beyond_the_limit_is_refused(admin: Caller) -> None:
    answer = admin.post("messages/", {"address": "a", "payload": "x" * (64 * 1024 * 1024 + 1)})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


def test_a_payload_beyond_what_its_address_takes_is_kept_and_waits_for_a_higher_limit(
    admin: Caller, orders_destination: None
) -> None:
    policy = {"match": "orders.eu", "settings": {"max_payload_bytes": 10}}
    path = f"policies/{admin.post('policies/', policy).json()['id']}/"
    answer = admin.post("messages/", {"address": "orders.eu", "payload": "x" * 11})
    message = answer.json()
    assert (answer.status_code, message["state"], message["reason"]) == (201, "NDLV", "oversized")
    [row] = admin.get(f"messages/{message['id']}/history/").json()["results"]
    assert row["note"] == "The payload has 11 bytes; orders.eu takes at most 10 (max_payload_bytes)."
    assert admin.get("messages/?reason=oversized").json()["results"][0]["id"] == message["id"]
    assert admin.get(f"messages/{message['id']}/payload/").content == b"x" * 11
    refused = admin.post(f"messages/{message['id']}/approve/", {"reason": "send it"})
    assert (refused.status_code, refused.json()["code"]) == (409, "oversized")
    assert "max_payload_bytes" in refused.json()["detail"]
    admin.ask("PUT", path, {**policy, "settings": {"max_payload_bytes": 11}})
    assert admin.post(f"messages/{message['id']}/approve/", {"reason": "send it"}).json()["state"] == "TBDL"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity"])
@pytest.mark.parametrize("path", ["messages/", "messages/batch/"])
def test_a_compressed_body_is_refused_and_never_unpacked(path: str, encoding: str, admin: Caller) -> None:
    kind = "application/json" if path == "messages/" else "application/x-ndjson"
    bomb = gzip.compress(b"[" * 10_000_000)
    answer = admin.post(path, bomb, Content_Type=kind, Content_Encoding=encoding)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_content_encoding")
    plain = admin.post(path, b'{"address": "a", "payload": "x"}', Content_Type=kind, Content_Encoding="identity")
    assert plain.status_code in (201, 202)


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
        assert header_member(name, value) in written
        assert header_member(name, value + "?") not in written
