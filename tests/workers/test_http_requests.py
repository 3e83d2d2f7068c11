"""What a consumer receives: the bytes as they were, our headers, those that may be copied, and no others."""

import asyncio
import gzip
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.sinks import Seen, deliver, delivery, destination, http_sink, raw_sink, read_request
from workers.delivery.deliveries import ConfiguredDestination, Delivery
from workers.delivery.http.exchange import parse_http_config


def received(one: Delivery, **settings) -> tuple[Mapping[str, str], bytes]:
    async def run():
        seen = Seen()
        async with http_sink(seen=seen) as url:
            done = await deliver([one], destination(url, **settings))
        assert done.row.outcome == "delivered", done.row
        return seen.requests[0].headers, seen.bodies[0]

    return asyncio.run(run())


def received_bytes(one: Delivery, **settings) -> bytes:
    """Return the request as it came over the wire."""

    async def run():
        requests = []

        async def keep(reader, writer):
            requests.append(await read_request(reader))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            await reader.read()

        async with raw_sink(keep) as url:
            await deliver([one], destination(url, **settings))
        return requests[0]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        bytes(range(256)),
        b"\xff\xfe\xed\xa0\x80",
        b"\xef\xbb\xbf{}",
        b"[" * 20_000,
        b"x" * 1_000_000,
        b"y" * 20_000_000,
    ],
    ids=len,
)
def test_the_payload_arrives_byte_for_byte(payload):
    headers, body = received(delivery(payload=payload))
    assert body == payload
    assert headers["Content-Length"] == str(len(payload))
    assert "Transfer-Encoding" not in headers


def test_every_delivery_says_what_it_is():
    one = delivery(
        4711, attempt_number=3, address="orders.größe", producer_message_id="p-1", conversation_id="c 1\n", headers={}
    )
    headers, _ = received(one)
    assert headers["PoisonAdmin-Message-Id"] == "4711"
    assert headers["PoisonAdmin-Attempt"] == "3"
    assert headers["PoisonAdmin-Address"] == "orders.gr%C3%B6%C3%9Fe"
    assert headers["PoisonAdmin-Producer-Message-Id"] == "p-1"
    assert headers["PoisonAdmin-Conversation-Id"] == "c 1%0A"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == "PoisonAdmin"
    assert headers["Accept-Encoding"] == "identity"


def test_a_message_without_a_conversation_has_no_header_for_it():
    assert "PoisonAdmin-Conversation-Id" not in received(delivery())[0]


def test_headers_of_the_message_are_copied_by_the_list():
    headers, _ = received(delivery(headers={"X-GitHub-Event": "push", "traceparent": "00-1", "Subject": "hello"}))
    assert headers["X-GitHub-Event"] == "push"
    assert headers["traceparent"] == "00-1"
    assert "Subject" not in headers


def test_a_payload_that_was_compressed_by_its_producer_goes_on_as_it_is():
    packed = gzip.compress(b'{"n": 1}')
    request = received_bytes(delivery(payload=packed, headers={"Content-Encoding": "gzip"}))
    assert b"Content-Encoding: gzip\r\n" in request
    assert request.endswith(b"\r\n\r\n" + packed)


def test_what_frames_or_identifies_a_request_is_never_taken_from_a_message():
    hostile = {
        "Host": "evil.example",
        "Content-Length": "1",
        "Transfer-Encoding": "chunked",
        "Connection": "close, X-Kind",
        "Authorization": "Bearer stolen",
        "Cookie": "session=1",
        "Proxy-Authorization": "x",
        "PoisonAdmin-Attempt": "99",
        "poisonadmin-message-id": "99",
        "X-Forwarded-For": "127.0.0.1",
        "Content-Type": "text/html",
        "Expect": "100-continue",
        "X-Kind": "kept",
    }
    headers, body = received(delivery(headers=hostile), copy_headers=("*",))
    assert headers["Host"].startswith("127.0.0.1:")
    assert headers["PoisonAdmin-Attempt"] == "1"
    assert headers["PoisonAdmin-Message-Id"] == "1"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Kind"] == "kept"
    assert body == b'{"n": 1}'
    for name in ("Authorization", "Cookie", "Proxy-Authorization", "X-Forwarded-For", "Transfer-Encoding", "Expect"):
        assert name not in headers


@pytest.mark.parametrize(
    "value", ["a\r\nX-Admin: 1", "a\nX-Admin: 1", "a\rX-Admin: 1", "a\0", "a\r\n\r\nPOST /admin HTTP/1.1\r\n"]
)
def test_a_header_that_would_break_the_request_is_left_out(value):
    request = received_bytes(delivery(headers={"X-Kind": value, "X-Good": "yes"}))
    assert b"X-Admin" not in request
    assert b"X-Kind" not in request
    assert b"X-Good: yes\r\n" in request


@pytest.mark.parametrize("content_type", ["text/plain\r\nX-Admin: 1", "", "text/plän", "\0"])
def test_a_content_type_that_cannot_be_sent_becomes_plain_bytes(content_type):
    request = received_bytes(delivery(content_type=content_type))
    assert b"X-Admin" not in request
    assert b"Content-Type: application/octet-stream\r\n" in request


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5), st.text(max_size=30))
def test_no_headers_whatever_break_a_request(headers, name):
    one = delivery(headers=headers, producer_message_id=name, conversation_id=name, content_type=name)
    request = received_bytes(one, copy_headers=("*",))
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == one.payload
    assert all(b":" in line for line in head.split(b"\r\n")[1:])
    assert head.count(b"\nPoisonAdmin-Message-Id:") == 1


def test_the_destinations_own_headers_win_over_the_messages():
    config = {"url": "http://example.org/", "headers": {"X-Team": "shown", "X-Kind": "destination"}}
    secrets = {"Authorization": "Bearer secret", "x-team": "hidden"}
    to = parse_http_config(ConfiguredDestination(config=config, secrets=secrets))
    headers, _ = received(delivery(headers={"X-Kind": "message", "X-Team": "message"}), headers=to.headers)
    assert headers.getall("X-Kind") == ["destination"]
    assert headers.getall("X-Team") == ["hidden"]
    assert headers["Authorization"] == "Bearer secret"


def test_secrets_are_not_shown_when_a_destination_is_printed():
    secrets = {"Authorization": "Bearer canary"}
    to = parse_http_config(ConfiguredDestination(config={"url": "http://example.org/"}, secrets=secrets))
    assert "canary" not in repr(to)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_configured_method_is_used(method):
    assert received_bytes(delivery(), method=method).startswith(method.encode() + b" /hook HTTP/1.1\r\n")


def test_the_url_is_sent_as_it_was_written():
    async def run():
        seen = Seen()
        async with http_sink(seen=seen) as url:
            await deliver([delivery()], destination(f"{url}/a%2Fb?x=%20&y=1+1"))
        return seen.requests[0].raw_path

    assert asyncio.run(run()) == "/hook/a%2Fb?x=%20&y=1+1"


def test_a_proxy_in_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    assert received(delivery())[1] == b'{"n": 1}'


def test_a_cookie_that_a_consumer_sets_is_not_sent_back():
    async def run():
        seen = Seen()

        async def answer(request):
            from aiohttp import web

            return web.Response(headers={"Set-Cookie": "session=1"})

        async with http_sink(answer, seen=seen) as url:
            await deliver([delivery(1), delivery(2)], destination(url, concurrency=1))
        return [request.headers.get("Cookie") for request in seen.requests]

    assert asyncio.run(run()) == [None, None]
