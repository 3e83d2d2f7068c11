"""Uploads: bounded before they reach the disk, and never held in memory."""

import asyncio
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

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
        ("/triage/", [(b"cookie", b"sessionid=x")], 4 * MIB),
        ("/accounts/login/", [], STRANGER_BYTES),
    ],
)
def test_every_path_has_its_limit(path: str, headers: list[tuple[bytes, bytes]], limit: int) -> None:
    assert limit_of(scope(path, *headers)) == limit


def test_a_body_that_announces_too_much_is_not_read_at_all() -> None:
    answers, given = send_to("/x/", [b"x"], (b"content-length", str(5 * MIB).encode()))
    assert (answers[0]["status"], given) == (413, 0)
    assert json.loads(answers[1]["body"])["code"] == "body_too_large"


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
