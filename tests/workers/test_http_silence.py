"""What each kind of missing answer is recorded as."""

import asyncio
import socket
import ssl
import struct
import threading
from datetime import timedelta

import pytest
import trustme

from poisonadmin.delivery.domain.window import TRANSPORT_CAUSES
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.sinks import (
    closed_port,
    deliver,
    delivery,
    destination,
    http_sink,
    outcome_of_connection,
    raw_sink,
    read_request,
    saying,
)


def test_a_server_that_answers_late_is_a_timeout():
    async def hang(reader, writer):
        await read_request(reader)
        await reader.read()

    row = outcome_of_connection(hang, timeout_ms=200)
    assert row.error_class == "HttpTimeout"
    assert "200 ms" in row.error_message
    assert row.status_code is None
    assert row.finished_at - row.started_at >= timedelta(milliseconds=195)


def test_a_server_that_never_reads_is_a_timeout():
    async def hang(reader, writer):
        writer.transport.pause_reading()
        await asyncio.Event().wait()

    async def run() -> AttemptRecord:
        async with raw_sink(hang) as url:
            large = delivery(payload=b"x" * 16_000_000)
            return (await deliver([large], destination(url, timeout_ms=300))).row

    assert asyncio.run(run()).error_class == "HttpTimeout"


def test_a_listener_that_never_accepts_is_a_timeout():
    async def run() -> AttemptRecord:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            return (await deliver([delivery()], destination(url, timeout_ms=200))).row

    assert asyncio.run(run()).error_class == "HttpTimeout"


def test_a_refused_connection_has_its_own_class():
    url = f"http://127.0.0.1:{closed_port()}/"
    row = asyncio.run(deliver([delivery()], destination(url))).row
    assert row.error_class == "HttpConnectionRefused"
    assert row.title == "HttpConnectionRefused: " + row.title.partition(": ")[2]


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def test_a_reset_before_the_request_is_read_is_a_lost_connection():
    async def reset(reader, writer):
        _reset(writer)

    assert outcome_of_connection(reset).error_class == "HttpConnectionReset"


def test_a_reset_after_the_request_was_read_is_a_lost_connection():
    async def reset(reader, writer):
        await read_request(reader)
        _reset(writer)

    assert outcome_of_connection(reset).error_class == "HttpConnectionReset"


def test_a_connection_closed_without_an_answer_is_a_lost_connection():
    assert outcome_of_connection(saying(b"")).error_class == "HttpConnectionReset"


def test_a_lost_connection_is_not_tried_again_within_the_attempt():
    requests = []

    async def lose(reader, writer):
        requests.append(await read_request(reader))

    assert outcome_of_connection(lose).outcome == "failed"
    assert len(requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\x04\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"<html></html>\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_http_is_a_protocol_failure(garbage):
    row = outcome_of_connection(saying(garbage))
    assert row.outcome == "failed"
    assert row.error_class == "HttpProtocolError"
    assert row.status_code is None


def _tls_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def test_a_certificate_that_nobody_vouches_for_is_a_tls_failure():
    async def run() -> tuple[AttemptRecord, AttemptRecord]:
        async with http_sink(tls=_tls_server()) as url:
            checked = await deliver([delivery()], destination(url))
            unchecked = await deliver([delivery()], destination(url, verify_tls=False))
            return checked.row, unchecked.row

    checked, unchecked = asyncio.run(run())
    assert checked.error_class == "HttpTlsError"
    assert "self-signed" in checked.error_message or "unable to get local issuer" in checked.error_message
    assert unchecked.outcome == "delivered"


def test_a_server_that_does_not_speak_tls_is_a_tls_failure():
    async def run() -> AttemptRecord:
        async with http_sink() as url:
            return (await deliver([delivery()], destination(url.replace("http:", "https:")))).row

    assert asyncio.run(run()).error_class == "HttpTlsError"


def test_a_name_that_does_not_exist_is_a_resolution_failure():
    async def nowhere(host, port, family):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    row = asyncio.run(deliver([delivery()], destination("http://shop.example/"), lookup=nowhere)).row
    assert row.error_class == "HttpDnsError"
    assert "Name or service not known" in row.error_message


def test_every_failure_without_a_status_is_a_known_transport_failure():
    async def hang(reader, writer):
        await read_request(reader)
        await reader.read()

    for row in (
        outcome_of_connection(saying(b"")),
        outcome_of_connection(saying(b"x\r\n\r\n")),
        outcome_of_connection(hang, timeout_ms=100),
    ):
        assert row.error_class in TRANSPORT_CAUSES


def test_the_summary_tells_transport_failures_from_answers():
    async def run():
        async with http_sink() as good:
            bad = f"http://127.0.0.1:{closed_port()}/"
            deliveries = [delivery(n, destination_id=1 + n % 2) for n in range(20)]
            return await deliver(deliveries, destination(good, 1), destination(bad, 2))

    summary = asyncio.run(run()).summary
    assert (summary.begun, summary.delivered, summary.failed, summary.not_begun) == (20, 10, 10, 0)
    assert summary.by_destination[1].transport_failures == 0
    assert summary.by_destination[2].transport_failures == 10


def test_an_error_of_our_own_is_a_failure_with_its_stack_and_not_a_lost_message():
    class UnreadableHeaders(dict):
        def items(self):
            raise RuntimeError("broken headers")

    async def run():
        async with http_sink() as url:
            return await deliver([delivery(1, headers=UnreadableHeaders()), delivery(2)], destination(url))

    broken, good = sorted(asyncio.run(run()).rows, key=lambda row: row.message_id)
    assert broken.error_class == "RuntimeError"
    assert "test_http_silence.py" in broken.stack
    assert good.outcome == "delivered"


def test_a_destination_that_cannot_be_used_fails_its_own_deliveries_only():
    async def run():
        async with http_sink() as url:
            broken = destination("", 1, broken="url: is missing")
            return await deliver([delivery(1), delivery(2, destination_id=2)], broken, destination(url, 2))

    broken, good = sorted(asyncio.run(run()).rows, key=lambda row: row.message_id)
    assert (broken.error_class, broken.error_message) == ("InvalidDestination", "url: is missing")
    assert good.outcome == "delivered"


def test_stop_flags_of_any_kind_are_asked():
    event = threading.Event()
    event.set()
    done = asyncio.run(deliver([delivery()], destination("http://127.0.0.1:1/"), is_stopping=event.is_set))
    assert done.rows == []
    assert done.summary.not_begun == 1
