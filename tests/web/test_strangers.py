"""What strangers send by the hundred is neither stored nor in the way of others."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from statistics import median

import psutil
import pytest
from django.contrib.auth.models import User
from django.test import Client

from poisonadmin.core.domain.access import Role
from poisonadmin.web.api.connections import MAX_CONNECTIONS
from poisonadmin.web.api.upload_limit import MAX_UPLOADS
from tests.fixtures.api import caller_of, make_user
from tests.fixtures.live_web import Web, answers
from tests.patience import on_this_machine

MIB = 1024 * 1024
BATCH = "/api/v1/messages/batch/"
UPLOAD = 200 * MIB


def opened(address: str) -> socket.socket:
    """Return a connection."""
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def head(path: str, length: int, **headers: str) -> bytes:
    """Return the header of a POST whose body has so many bytes; of unknown length where that is negative."""
    size = {"Transfer-Encoding": "chunked"} if length < 0 else {"Content-Length": str(length)}
    given = {"Host": "localhost", "Content-Type": "application/x-ndjson"} | size | headers
    return f"POST {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in given.items()) + b"\r\n"


def status_of(connection: socket.socket) -> int:
    """Return the status that is answered; 0 where the connection ends without."""
    received = b""
    try:
        while b"\r\n" not in received and (piece := connection.recv(4096)):
            received += piece
    except ConnectionError:
        pass
    return int(received.split(b" ", 2)[1]) if received else 0


def upload(address: str, length: int, **headers: str) -> int:
    """Send a body of `UPLOAD` bytes until it is refused; return the status."""
    chunk = b"x" * MIB
    piece = b"100000\r\n" + chunk + b"\r\n" if length < 0 else chunk
    with opened(address) as connection:
        try:
            connection.sendall(head(BATCH, length, **headers))
            for _ in range(UPLOAD // MIB):
                connection.sendall(piece)
        except ConnectionError:
            pass
        return status_of(connection)


@pytest.mark.parametrize("length", [UPLOAD, -1])
@pytest.mark.parametrize(
    "credentials", [{"Authorization": "Bearer pa_nonsense"}, {"Cookie": "sessionid=nonsense"}], ids=["token", "session"]
)
def test_a_stranger_s_upload_writes_nothing(web: Web, length: int, credentials: dict[str, str]) -> None:
    address, process = web
    before = process.io_counters().write_chars
    with ThreadPoolExecutor(3) as strangers:
        statuses = set(strangers.map(lambda _: upload(address, length, **credentials), range(3)))
    assert process.io_counters().write_chars - before < MIB
    assert statuses == {401}


def test_a_refused_upload_is_answered_before_its_first_byte(web: Web) -> None:
    address, _ = web
    with opened(address) as connection:
        connection.sendall(head(BATCH, UPLOAD, Authorization="Bearer pa_nonsense", Expect="100-continue"))
        assert status_of(connection) == 401


def test_a_session_of_an_active_user_may_upload(web: Web) -> None:
    address, _ = web
    browser = Client()
    user = make_user("olga", Role.OPERATOR, [])
    browser.force_login(user)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"

    def answer() -> int:
        with opened(address) as connection:
            connection.sendall(head(BATCH, UPLOAD, Cookie=cookie, Expect="100-continue"))
            return status_of(connection)

    assert answer() == 100
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert answer() == 401


def test_a_token_uploads_so_much_at_once_and_another_one_beside_it(web: Web) -> None:
    address, _ = web
    first, second = (f"Bearer {caller_of(role).token}" for role in ("operator", "admin"))
    with ExitStack() as under_way:
        for _ in range(MAX_UPLOADS):
            connection = under_way.enter_context(opened(address))
            connection.sendall(head(BATCH, UPLOAD, Authorization=first, Expect="100-continue"))
            assert status_of(connection) == 100
        with opened(address) as connection:
            connection.sendall(head(BATCH, UPLOAD, Authorization=first, Expect="100-continue"))
            answer = connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"retry-after: " in answer.lower()
        for token, path in ((first, "/api/v1/messages/"), (second, BATCH)):
            with opened(address) as connection:
                length = 100 if token == first else UPLOAD
                connection.sendall(head(path, length, Authorization=token, Expect="100-continue"))
                assert status_of(connection) == 100

    def begins() -> bool:
        with opened(address) as connection:
            connection.sendall(head(BATCH, UPLOAD, Authorization=first, Expect="100-continue"))
            return status_of(connection) == 100

    deadline = time.monotonic() + 10
    while not begins():
        assert time.monotonic() < deadline, "an upload that was broken off still counts"


def established(web: Web) -> int:
    """Return how many connections of clients the process has."""
    address, process = web
    port = int(address.split(":")[1])
    found = process.net_connections("tcp")
    return sum(one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED for one in found)


HALF_OPEN = {
    "nothing": b"",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
    "half a body": head("/accounts/login/", 100) + b"login=",
    "half a second request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /h",
}


@pytest.fixture
def many(web: Web) -> Iterator[list[socket.socket]]:
    """Yield 500 half-open connections, of every kind."""
    with ExitStack() as stack:
        connections = [stack.enter_context(opened(web[0])) for _ in range(500)]
        for number, connection in enumerate(connections):
            connection.sendall(list(HALF_OPEN.values())[number % len(HALF_OPEN)])
        yield connections


def test_half_open_connections_end_within_30_seconds_and_others_are_answered(
    web: Web, many: list[socket.socket]
) -> None:
    address, _ = web
    began = time.monotonic()
    waits: list[float] = []
    open_ones = len(many)
    while open_ones and time.monotonic() - began < 30:
        asked = time.monotonic()
        assert answers(address)
        waits.append(time.monotonic() - asked)
        time.sleep(0.5)
        open_ones = established(web)
    print(json.dumps({"gone after": round(time.monotonic() - began, 1), "slowest answer": round(max(waits), 3)}))
    assert open_ones == 0
    assert median(waits) < on_this_machine(1)


def test_a_header_that_drips_is_cut_off(web: Web) -> None:
    address, _ = web
    with opened(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 30:
                connection.sendall(b"X-Drip: x\r\n")
                time.sleep(0.2)
        assert time.monotonic() - began < 15


def test_beyond_the_limit_it_is_the_silent_ones_that_go(web: Web) -> None:
    address, _ = web
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + 50):
            stack.enter_context(opened(address))
        began = time.monotonic()
        assert answers(address)
        assert time.monotonic() - began < on_this_machine(1)
        assert established(web) <= MAX_CONNECTIONS


def test_a_host_name_that_is_not_ours_writes_no_stack_trace(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    answer = client.get("/healthz", headers={"host": "elsewhere.example.org"})
    assert answer.status_code == 400
    assert not [record for record in caplog.records if record.exc_info]
