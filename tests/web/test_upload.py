"""Uploads: bounded before they reach the disk, and never held in memory."""

import asyncio
import contextlib
import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from poisonadmin.store.models.message import Message
from poisonadmin.web.api import upload_limit
from poisonadmin.web.api.upload_limit import STRANGER_BYTES, limit_of, with_upload_limit
from tests.fixtures.api import caller_of
from tests.fixtures.live_web import Peak, Web, exchange

TOKEN = (b"authorization", b"Bearer pa_x")
MIB = 1024 * 1024
BATCH = "/api/v1/messages/batch/"


def scope(path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    """Return an ASGI scope."""
    return {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": list(headers)}


def send_to(path: str, chunks: list[bytes], *headers: tuple[bytes, bytes]) -> tuple[list[dict[str, Any]], int]:
    """Send a body through the limit; return what was answered and how many bytes the application was given."""
    given = 0
    answers: list[dict[str, Any]] = []

    async def application(_: Any, receive: Any, send: Any) -> None:
        nonlocal given
        more = True
        while more:
            message = await receive()
            given += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    async def send(message: Any) -> None:
        answers.append(message)

    # In a thread of its own: the browser tests leave an event loop running in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, with_upload_limit(application)(scope(path, *headers), receive, send)).result()
    return answers, given


@pytest.mark.parametrize(
    ("path", "headers", "limit"),
    [
        ("/api/v1/messages/batch/", [TOKEN], 1024 * MIB),
        ("/api/v1/messages/", [TOKEN], 128 * MIB),
        ("/api/v1/messages/batch/", [], STRANGER_BYTES),
        ("/api/v1/messages/1/approve/", [TOKEN], MIB),
        ("/api/v1/views/", [TOKEN], MIB),
        ("/triage/", [(b"cookie", b"sessionid=x")], MIB),
        ("/accounts/login/", [], STRANGER_BYTES),
    ],
)
def test_every_path_has_its_limit(path: str, headers: list[tuple[bytes, bytes]], limit: int) -> None:
    assert limit_of(scope(path, *headers)) == limit


def test_a_body_that_announces_too_much_is_not_read_at_all() -> None:
    answers, given = send_to("/x/", [b"x"], (b"content-length", str(5 * MIB).encode()))
    assert (answers[0]["status"], given) == (413, 0)
    assert json.loads(answers[1]["body"])["code"] == "body_too_large"


def test_a_body_whose_end_is_given_in_two_ways_is_refused() -> None:
    answers, given = send_to("/x/", [b"0\r\n\r\n"], (b"content-length", b"5"), (b"transfer-encoding", b"chunked"))
    assert (answers[0]["status"], given) == (400, 0)
    assert json.loads(answers[1]["body"])["code"] == "two_lengths"


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/messages/", "/accounts/login/"])
def test_nothing_is_smuggled_behind_a_body_of_two_lengths(web: Web, path: str) -> None:
    host, port = web[0].split(":")
    smuggled = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lengths = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (5 + len(smuggled))
    for order in (lengths, b"".join(reversed(lengths.splitlines(keepends=True)))):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + order + b"\r\n"
            connection.sendall(head + b"0\r\n\r\n" + smuggled)
            received = b""
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65_536):
                    received += piece
        assert received.startswith(b"HTTP/1.1 400 ")
        assert received.count(b"HTTP/1.1 ") == 1


def test_a_body_that_lies_about_its_length_is_cut_off() -> None:
    answers, given = send_to("/x/", [b"x" * STRANGER_BYTES, b"x", b"x"], (b"content-length", b"1"))
    assert (answers[0]["status"], given) == (413, STRANGER_BYTES)


def test_a_body_within_the_limit_passes() -> None:
    answers, given = send_to("/x/", [b"x" * STRANGER_BYTES])
    assert (answers[0]["status"], given) == (200, STRANGER_BYTES)


def answer_of(receive: Any, *headers: tuple[bytes, bytes]) -> tuple[int, dict[str, Any]]:
    """Send a body through the limit to an application that reads it; return the status and the problem."""
    answers: list[dict[str, Any]] = []

    async def application(_: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        answers.append(message)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, with_upload_limit(application)(scope("/x/", *headers), receive, send)).result()
    return answers[0]["status"], json.loads(answers[1]["body"]) if len(answers) > 1 else {}


@pytest.mark.parametrize("pieces", [3, 10_000], ids=["a pause", "a drip"])
def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    monkeypatch.setattr(upload_limit, "LINGER_SECONDS", 0.1)
    monkeypatch.setattr(upload_limit, "PAUSE_SECONDS" if pieces == 3 else "BODY_SECONDS", 0.2)
    left = pieces

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        await asyncio.sleep(0.01 if left >= 0 else 60)
        return {"type": "http.request", "body": b"x", "more_body": True}

    status, problem = answer_of(receive)
    assert (status, problem["code"]) == (408, "body_too_slow")


def test_a_sender_who_cannot_be_checked_for_want_of_a_database_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_database(_: Any) -> str:
        raise OperationalError

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    monkeypatch.setattr(upload_limit, "sender_of", no_database)
    status, problem = answer_of(receive, TOKEN, (b"content-length", b"100000"))
    assert (status, problem["code"]) == (503, "unavailable")


def test_a_batch_of_one_who_may_not_send_any_is_refused_before_it_is_read(web: Web) -> None:
    address, _ = web
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.putrequest("POST", BATCH)
    connection.putheader("Authorization", f"Bearer {caller_of('viewer').token}")
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Content-Length", str(200 * MIB))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["code"]) == (403, "not_allowed")
    connection.close()


def values(size: int) -> bytes:
    return b"[" + b"{}," * (size // 3) + b"0]"


def test_no_endpoint_but_intake_takes_megabytes_or_many_values(fresh_web: Web) -> None:
    address, process = fresh_web
    token = {"Authorization": f"Bearer {caller_of('admin').token}", "Content_Type": "application/json"}
    browser = Client()
    browser.force_login(User.objects.get())
    csrf = "a" * 32
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}; csrftoken={csrf}"}
    form = {"Content_Type": "application/x-www-form-urlencoded", "Referer": f"http://{address}/"} | cookie
    exchange(address, "POST", "/api/v1/views/", b"{}", **token)
    exchange(address, "GET", "/rules/new/before/", **cookie)
    ended: dict[tuple[str, str], int] = {}
    before, used = process.memory_info().rss, sum(process.cpu_times()[:2])
    with Peak(process) as peak:
        for path in ("views/", "rules/", "selections/", "searches/", "reports/", "poison-list/", "policies/"):
            ended[path, "60 MB"] = exchange(address, "POST", f"/api/v1/{path}", values(60_000_000), **token)[0]
            ended[path, "1 MB"] = exchange(address, "POST", f"/api/v1/{path}", values(1_000_000), **token)[0]
            nested = b'{"name": "n", "query": ' + values(900_000) + b"}"
            ended[path, "nested"] = exchange(address, "POST", f"/api/v1/{path}", nested, **token)[0]
        ended["rule form", "60 MB"] = exchange(
            address, "POST", "/rules/new/before/", b"json=" + values(60_000_000), **form
        )[0]
        for field in ("json", "violates", "headers", "size", "match"):
            fields = f"csrfmiddlewaretoken={csrf}&{field}=".encode()
            for what, text in (
                ("{}", values(900_000)),
                ("blanks", b"%24" + b"+" * 900_000 + b"x"),
                (".", b"." * 900_000),
            ):
                ended[field, what] = exchange(address, "POST", "/rules/new/before/", fields + text, **form)[0]
    seconds = sum(process.cpu_times()[:2]) - used
    print({"answers": ended, "seconds": seconds, "grown by MiB": (peak.bytes - before) // MIB})
    assert {status for (_, what), status in ended.items() if what == "60 MB"} == {413}
    assert all(400 <= status < 500 for status in ended.values())
    assert seconds < 20
    assert peak.bytes - before < 100 * MIB


def test_intake_refuses_what_has_too_many_values_before_it_reads_them(fresh_web: Web) -> None:
    address, process = fresh_web
    token = {"Authorization": f"Bearer {caller_of('admin').token}"}
    line = b'{"address": "a", "payload": ' + values(12_000_000) + b"}"
    used = sum(process.cpu_times()[:2])
    single = exchange(address, "POST", "/api/v1/messages/", line, Content_Type="application/json", **token)
    batch = exchange(address, "POST", BATCH, line * 2, Content_Type="application/x-ndjson", **token)
    as_text = b'{"address": "a", "payload": ' + json.dumps(values(12_000_000).decode()).encode() + b"}"
    taken = exchange(address, "POST", "/api/v1/messages/", as_text, Content_Type="application/json", **token)
    assert (single[0], json.loads(single[2])["code"]) == (400, "too_many_values")
    assert (batch[0], json.loads(batch[2])["code"]) == (422, "nothing_accepted")
    assert taken[0] == 201
    assert sum(process.cpu_times()[:2]) - used < 15


def test_a_long_batch_grows_no_process_and_strangers_send_none(fresh_web: Web, tmp_path: Path) -> None:
    address, process = fresh_web
    headers = {"Authorization": f"Bearer {caller_of('admin').token}", "Content_Type": "application/x-ndjson"}
    exchange(address, "POST", BATCH, b'{"address": "a", "payload": "warm"}', **headers)
    before = process.memory_info().rss
    lines = 1200
    with (tmp_path / "upload").open("w+b") as file:
        for number in range(lines):
            line = {"address": f"bulk.a{number % 9}", "message_id": str(number), "payload": "x" * 100_000}
            file.write(json.dumps(line).encode() + b"\n")
        assert file.tell() > 110 * MIB
        file.seek(0)
        with Peak(process) as peak:
            status, _, answer = exchange(address, "POST", BATCH, iter(lambda: file.read(MIB), b""), **headers)
    assert (status, json.loads(answer)["accepted"]) == (202, lines)
    assert Message.objects.count() == lines + 1
    assert peak.bytes - before < 64 * MIB
    status, kind, _ = exchange(address, "POST", BATCH, Content_Length=str(STRANGER_BYTES + 1))
    assert (status, kind) == (413, "application/problem+json"), "a stranger uploads nothing"
