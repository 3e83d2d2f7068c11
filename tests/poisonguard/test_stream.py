"""The event stream itself: how many, how slow, and how it ends."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import psycopg
import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL
from poisonadmin.decisions.commands.refused_decisions import NotListed
from poisonadmin.decisions.operations.commands.releases import release_bookmark
from poisonadmin.desk.api.poison_events import MAX_STREAMS, MAX_STREAMS_EACH
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.poison_list.queries.feed import NAME
from poisonadmin.store.models.poison import PoisonEntry
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import make_user
from tests.poisonguard.conftest import MakeGuard, Service, Web, until

SOURCE = "orders.eu"
MIB = 2**20


def open_stream(
    service: Service, port: int | None = None, receive_bytes: int | None = None, token: str | None = None
) -> socket.socket:
    """Ask for the stream and return the connection, of which nothing has been read."""
    near = socket.socket()
    if receive_bytes is not None:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    near.settimeout(30)
    near.connect(("127.0.0.1", port or service.web.port))
    near.sendall(
        f"GET /api/v1/poison-list/events/?source={SOURCE} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token or service.token}\r\nConnection: close\r\n\r\n".encode()
    )
    return near


def read_until(near: socket.socket, mark: bytes) -> bytes:
    """Read up to the mark at least, and return the last of it; fail when the stream ends before."""
    content = b""
    while mark not in content:
        more = near.recv(65536)
        assert more, content
        content = content[-4096:] + more
    return content


def fill(count: int) -> None:
    """List so many bookmarks of about a kilobyte each."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO poison_entry (source, bookmark, why, reported_by, is_listed)"
            " SELECT %s, n::text, repeat('x', 1000), 'test', TRUE FROM generate_series(1, %s) AS n",
            [SOURCE, count],
        )


def connections() -> int:
    """Count the connections to the database that feed streams: two for each process that has any."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [NAME])
        return int(cursor.fetchone()[0])


def end_connections() -> None:
    """End the connections to the database that feed streams."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [NAME])


@pytest.fixture
def impatient(test_database_url: str, tmp_path: Path) -> Iterator[Web]:
    """Yield a web process that sends its comments, and gives up on readers, in less than a second."""
    running = Web(test_database_url, tmp_path / "web.log", "tests.poisonguard.impatient_web")
    yield running
    running.stop()


def another_token(name: str) -> str:
    """Return a token of another user."""
    return create_token(make_user(name, Role.OPERATOR, []), "guard", scopes=list(Permission), by="test").text


def test_one_token_takes_a_share_of_the_streams_and_leaves_the_rest_to_others(service: Service) -> None:
    with ExitStack() as all_of_them:
        for _ in range(MAX_STREAMS_EACH):
            read_until(all_of_them.enter_context(closing(open_stream(service))), b"event: loaded")
        with closing(open_stream(service)) as one_more:
            assert read_until(one_more, b"too_many_streams").startswith(b"HTTP/1.1 503 ")
        with closing(open_stream(service, token=another_token("kim"))) as others:
            read_until(others, b"event: loaded")


def test_there_are_so_many_streams_and_no_more_and_a_place_comes_back(service: Service) -> None:
    tokens = [another_token(f"user-{number}") for number in range(MAX_STREAMS // MAX_STREAMS_EACH)]
    with ExitStack() as all_of_them:
        for number in range(MAX_STREAMS):
            stream = open_stream(service, token=tokens[number % len(tokens)])
            read_until(all_of_them.enter_context(closing(stream)), b"event: loaded")
        with closing(open_stream(service)) as one_more:
            refused = read_until(one_more, b"too_many_streams")
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After:" in refused
        # The pages and everything else go on meanwhile.
        assert service.entries(SOURCE) == {}

    def is_let_in() -> bool:
        with closing(open_stream(service)) as again:
            return read_until(again, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")

    until(is_let_in)


def test_a_reader_that_reads_nothing_costs_no_memory(service: Service) -> None:
    fill(30_000)
    with closing(open_stream(service)) as quick:
        read_until(quick, b"event: loaded")
    process = psutil.Process(service.web.process.pid)
    before = process.memory_info().rss
    with ExitStack() as slow:
        for _ in range(5):
            slow.enter_context(closing(open_stream(service, receive_bytes=4096)))
        with closing(open_stream(service)) as quick:
            read_until(quick, b"event: loaded")
        assert process.memory_info().rss - before < 24 * MIB


def test_a_stream_ends_with_its_database_connection_and_the_guard_comes_back(
    service: Service, make_guard: MakeGuard
) -> None:
    guard = make_guard(SOURCE).start()
    with closing(open_stream(service)) as stream:
        read_until(stream, b"event: loaded")
        end_connections()
        while stream.recv(65536):
            """Read to the end."""
    service.ask("POST", "poison-list/", {"source": SOURCE, "bookmark": "13", "why": "spoilt"})
    until(lambda: guard.is_listed("13"))


def test_every_guard_ends_up_knowing_exactly_what_is_listed(service: Service, make_guard: MakeGuard) -> None:
    guards = [make_guard(SOURCE).start() for _ in range(2)]

    def change_at_random(number: int) -> None:
        dice = random.Random(number)
        for _ in range(60):
            bookmark = str(dice.randrange(15))
            if dice.random() < 0.5:
                report(Report(SOURCE, bookmark, "why"), principal=SYSTEM)
            else:
                with contextlib.suppress(NotFound, NotListed):
                    entry = PoisonEntry.objects.filter(bookmark=bookmark).first()
                    release_bookmark(entry.id if entry else 0, principal=SYSTEM, reason="x")
        connection.close()

    changing = [threading.Thread(target=change_at_random, args=(number,)) for number in range(3)]
    for thread in changing:
        thread.start()
    while any(thread.is_alive() for thread in changing):
        end_connections()
        changing[0].join(0.3)
    listed = set(PoisonEntry.objects.filter(is_listed=True).values_list("bookmark", flat=True))
    for guard in guards:
        until(lambda guard=guard: set(guard._listing.bookmarks) == listed)


def test_a_quiet_stream_says_that_it_is_alive(service: Service, impatient: Web) -> None:
    with closing(open_stream(service, impatient.port)) as stream:
        read_until(stream, b"event: loaded")
        for _ in range(2):
            read_until(stream, b": quiet\n\n")


def test_a_stream_says_that_it_is_alive_also_while_other_lists_change(service: Service, impatient: Web) -> None:
    is_over = threading.Event()

    def change_another_list() -> None:
        with psycopg.connect(impatient.database_url, autocommit=True) as session:
            while not is_over.is_set():
                session.execute("SELECT pg_notify(%s, '1')", [POISON_LIST_CHANNEL])
                session.execute("SELECT pg_sleep(0.05)")

    with closing(open_stream(service, impatient.port)) as stream:
        read_until(stream, b"event: loaded")
        other = threading.Thread(target=change_another_list)
        other.start()
        try:
            for _ in range(2):
                read_until(stream, b": quiet\n\n")
        finally:
            is_over.set()
            other.join()


def test_a_reader_that_takes_nothing_for_long_is_cut_off(service: Service, impatient: Web) -> None:
    fill(30_000)
    with closing(open_stream(service, impatient.port, receive_bytes=4096)):
        until(lambda: connections() == 2)
        until(lambda: connections() == 0)
