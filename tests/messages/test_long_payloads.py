"""The longest payloads through the web process as it is run: in, onto the page, out again; and its memory meanwhile."""

import hashlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.message import Message
from tests.fixtures.api import caller_of, make_user
from tests.fixtures.live_web import Peak, Web, exchange, running_web

MIB = 1024 * 1024
LONGEST = 64 * MIB
GROWTH_BYTES = 48 * MIB  # the payload held once would be 64


@pytest.fixture
def token(transactional_db: None) -> str:
    """Return an administrator's credentials."""
    return f"Bearer {caller_of('admin').token}"


def hand_in(address: str, token: str, payload: bytes) -> dict[str, Any]:
    """Take a payload in, in one line of a batch; return the message."""
    line = b'{"address": "orders.eu", "message_id": "long", "payload": "%s"}' % payload
    status, _, answer = exchange(
        address, "POST", "/api/v1/messages/batch/", line, Authorization=token, Content_Type="application/x-ndjson"
    )
    assert (status, json.loads(answer)["accepted"]) == (202, 1), answer
    answer = exchange(address, "GET", f"/api/v1/messages/{Message.objects.get().id}/", Authorization=token)[2]
    found: dict[str, Any] = json.loads(answer)
    return found


def downloaded(address: str, path: str, **headers: str) -> tuple[int, str]:
    """Download without keeping anything; return how many bytes came and their digest."""
    connection = http.client.HTTPConnection(address, timeout=300)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        digest, size = hashlib.sha256(), 0
        while chunk := answer.read(MIB):
            digest.update(chunk)
            size += len(chunk)
        assert size == int(answer.headers["Content-Length"])
        return size, digest.hexdigest()
    finally:
        connection.close()


def session_of(user: User) -> str:
    """Return the cookie of a user who is logged in."""
    client = Client()
    client.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    return f"sessionid={client.cookies['sessionid'].value}"


def pieces() -> Iterator[bytes]:
    """Yield a payload of the greatest length, without a line's end, which the database can hardly compress."""
    for number in range(LONGEST // 64):
        yield hashlib.sha256(number.to_bytes(4)).hexdigest().encode()


def test_the_longest_payload_is_taken_in_one_line_shown_in_part_and_sent_out_whole_without_being_held(
    web: Web, token: str
) -> None:
    payload = b"".join(pieces())
    save_policy("orders.#", preset=None, settings={"max_payload_bytes": MIB}, destination=None, principal=SYSTEM)
    message = hand_in(web[0], token, payload)
    assert (message["state"], message["reason"], message["payload_bytes"]) == ("NDLV", "oversized", LONGEST)
    expected = (LONGEST, hashlib.sha256(payload).hexdigest())
    cookie = session_of(make_user("pat", Role.OPERATOR, []))
    page = f"/messages/{message['id']}/"
    # A process of its own: one that has taken a long line in has room to spare, in which growth would not be seen.
    with running_web() as (address, process):
        exchange(address, "GET", "/triage/", Cookie=cookie)
        before = process.memory_info().rss
        with Peak(process) as peak:
            status, _, html = exchange(address, "GET", page, Cookie=cookie)
            assert (status, len(html) < MIB) == (200, True)
            assert downloaded(address, f"/api/v1{page}payload/", Authorization=token) == expected
            assert downloaded(address, f"{page}payload/", Cookie=cookie) == expected
        assert peak.bytes - before < GROWTH_BYTES
        assert exchange(address, "HEAD", f"{page}payload/", Cookie=cookie)[2] == b""


def test_more_downloads_at_once_than_the_pool_has_connections_leave_room_for_others(web: Web, token: str) -> None:
    address, _ = web
    message = hand_in(address, token, b"x" * 8 * MIB)
    path = f"/api/v1/messages/{message['id']}/payload/"
    slow = []
    for _number in range(25):
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", path, headers={"Authorization": token})
        slow.append((connection, connection.getresponse()))
    assert all(answer.status == 200 for _, answer in slow), "nobody has read more than the heads"
    assert exchange(address, "GET", "/api/v1/messages/", Authorization=token)[0] == 200
    assert all(len(answer.read()) == 8 * MIB for _, answer in slow)
    for connection, _answer in slow:
        connection.close()
