"""What each kind of answer is recorded as."""

import asyncio
import gzip
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.sinks import deliver, delivery, destination, http_sink, outcome_of_connection, read_request, saying
from workers.delivery.deliveries import ConfiguredDestination
from workers.delivery.http.exchange import KEPT_BYTES, parse_http_config


def outcome_of_answer(response: web.Response) -> AttemptRecord:
    async def answer(request: web.Request) -> web.StreamResponse:
        return response

    async def run() -> AttemptRecord:
        async with http_sink(answer) as url:
            return (await deliver([delivery()], destination(url))).row

    return asyncio.run(run())


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_delivered(status):
    row = outcome_of_answer(web.Response(status=status))
    assert row.outcome == "delivered"
    assert row.status_code == status
    assert row.error_class is row.error_message is row.fingerprint is row.response is None


@pytest.mark.parametrize("status", [400, 404, 409, 410, 422, 429, 500, 502, 503, 599])
def test_any_other_status_is_a_failure_with_its_code(status):
    row = outcome_of_answer(web.Response(status=status, text="no such order 4711"))
    assert row.outcome == "failed"
    assert row.error_class == "HttpStatusError"
    assert row.status_code == status
    assert f"HTTP {status}" in row.error_message
    assert "no such order 4711" in row.error_message
    assert row.response == b"no such order 4711"
    assert len(row.fingerprint) == 16
    assert row.title.startswith(str(status))


def test_the_row_says_who_delivered_what_where_and_when():
    before = datetime.now(UTC) - timedelta(seconds=1)
    row = outcome_of_answer(web.Response())
    assert (row.message_id, row.attempt_number, row.destination_id, row.claim_id, row.shard) == (1, 1, 1, 7, 3)
    assert before < row.started_at <= row.finished_at < datetime.now(UTC) + timedelta(seconds=1)


def test_the_same_failure_with_other_numbers_has_the_same_fingerprint():
    one = outcome_of_answer(web.Response(status=422, text="order 4711 is closed"))
    other = outcome_of_answer(web.Response(status=422, text="order 4712 is closed"))
    third = outcome_of_answer(web.Response(status=422, text="customer unknown"))
    assert one.fingerprint == other.fingerprint != third.fingerprint


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(status):
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=status, headers={"Location": "http://169.254.169.254/latest/meta-data/"})

    async def run() -> AttemptRecord:
        async with http_sink(answer) as url:
            return (await deliver([delivery()], destination(url))).row

    row = asyncio.run(run())
    assert asked == ["/hook"]
    assert row.status_code == status
    assert "redirects are not followed" in row.error_message
    assert "169.254.169.254" in row.error_message


@pytest.mark.parametrize(("value", "expected"), [("7", 7000), ("junk", None), ("999999999", 86_400_000)])
def test_retry_after_is_kept_in_milliseconds(value, expected):
    row = outcome_of_answer(web.Response(status=503, headers={"Retry-After": value}))
    assert row.retry_after_ms == expected


def test_retry_after_may_be_a_date():
    at = datetime.now(UTC) + timedelta(seconds=100)
    row = outcome_of_answer(web.Response(status=429, headers={"Retry-After": f"{at:%a, %d %b %Y %H:%M:%S} GMT"}))
    assert 95_000 < row.retry_after_ms <= 100_000


def test_a_2xx_whose_body_breaks_off_is_delivered():
    row = outcome_of_connection(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"))
    assert row.outcome == "delivered"


def test_what_came_of_a_broken_off_error_body_is_kept():
    row = outcome_of_connection(saying(b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nbegun"))
    assert row.status_code == 500
    assert row.response == b"begun"


def test_a_huge_response_is_kept_to_four_kilobytes_and_not_read_to_its_end():
    written = 0

    async def pour(reader, writer):
        nonlocal written
        await read_request(reader)
        writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 1000000000\r\n\r\n")
        while written < 1_000_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    row = outcome_of_connection(pour)
    assert row.response == b"x" * KEPT_BYTES
    assert written < 50_000_000


def test_an_endless_chunked_response_is_cut_too():
    async def pour(reader, writer):
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"y" * 4096 + b"\r\n")
            await writer.drain()

    assert outcome_of_connection(pour).outcome == "delivered"


def test_a_compressed_response_is_kept_as_it_came():
    bomb = gzip.compress(b"\0" * 10_000_000)

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(status=500, body=bomb, headers={"Content-Encoding": "gzip"})

    async def run() -> AttemptRecord:
        async with http_sink(answer) as url:
            return (await deliver([delivery()], destination(url))).row

    row = asyncio.run(run())
    assert row.response == bomb[:KEPT_BYTES]
    assert row.error_message == "HTTP 500 Internal Server Error"


def test_texts_that_the_database_cannot_keep_are_made_storable():
    row = outcome_of_connection(saying(b"HTTP/1.1 500 a\xff\r\nContent-Length: 6\r\n\r\n\x00\xed\xa0\x80ab"))
    assert row.outcome == "failed"
    assert "\0" not in row.error_message
    row.error_message.encode()
    row.title.encode()


@pytest.mark.parametrize("before", [0, KEPT_BYTES - 10])
def test_a_consumer_that_sends_back_what_it_was_sent_shows_no_secret(before: int) -> None:
    secrets = {"Authorization": "Basic dXNlcjpwYXNzd29yZA==", "X-Signature": "s3cr3t-signature"}

    async def echo(request: web.Request) -> web.StreamResponse:
        said = " ".join([*(request.headers[name] for name in secrets), "for user:password"])
        return web.Response(status=500, reason=f"No {said}", text="x" * before + said + "the rest")

    async def run() -> AttemptRecord:
        async with http_sink(echo) as url:
            to = parse_http_config(ConfiguredDestination(1, config={"url": url}, secrets=secrets))
            return (await deliver([delivery()], to)).row

    row = asyncio.run(run())
    assert row.status_code == 500
    kept = f"{row.response} {row.error_message} {row.title}"
    for secret in ("dXNlcjpwYXNz", "password", "s3cr3t"):
        assert secret not in kept
    assert "[secret]" in kept
    assert len(row.response or b"") <= KEPT_BYTES


def test_a_consumer_s_wish_shows_no_secret() -> None:
    async def discard(request: web.Request) -> web.StreamResponse:
        wanted = f'discard; why="no {request.headers["X-Signature"]}"'
        return web.Response(headers={"PoisonAdmin-Outcome": wanted})

    async def run() -> AttemptRecord:
        async with http_sink(discard) as url:
            secrets = {"X-Signature": "s3cr3t-signature"}
            to = parse_http_config(ConfiguredDestination(1, config={"url": url}, secrets=secrets))
            return (await deliver([delivery()], to)).row

    row = asyncio.run(run())
    assert (row.outcome, row.error_message) == ("discarded", "no [secret]")


@pytest.mark.parametrize(
    "answer", [{"status": 503}, {"headers": {"PoisonAdmin-Outcome": "rollback"}}], ids=["failed", "rolled back"]
)
def test_a_failing_consumer_s_version_is_kept_and_cut(answer):
    headers = {**answer.pop("headers", {}), "PoisonAdmin-Consumer-Version": "2.4.1" + "x" * 200}
    row = outcome_of_answer(web.Response(**answer, headers=headers))
    assert row.consumer_version == ("2.4.1" + "x" * 200)[:100]


def test_a_delivered_answer_s_version_is_kept_too():
    row = outcome_of_answer(web.Response(headers={"PoisonAdmin-Consumer-Version": "2.4.1"}))
    assert (row.outcome, row.consumer_version) == ("delivered", "2.4.1")
