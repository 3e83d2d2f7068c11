"""PgBouncer in front of PostgreSQL: the web process needs no sessions; what needs them refuses a pooler without."""

import http.client
import json
import os
import pwd
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.cookiejar import CookieJar
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.urls import URLPattern, get_resolver
from django.urls.resolvers import RoutePattern
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.embedded.ports import free_port
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.access import IdempotencyKey
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.apt import find_program
from tests.fixtures.api import API, caller_of, take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.live_web import exchange, running_web
from tests.fixtures.pages import PASSWORD, make_user
from tests.services import Services

PROJECT = Path(__file__).resolve().parents[2]
# `make test-long` installs it.
pytestmark = pytest.mark.long
# Connections of the pooler to the server.
POOL = 3
NDJSON = "application/x-ndjson"
REFUSED = "The database is behind a pooler that gives each transaction another session. Set pool_mode = session there"
STARTS = {
    "web": ["-c", "import poisonadmin.asgi"],
    "worker": ["-c", "from workers.celery_app import _check_schema; _check_schema()"],
    "migrate": ["manage.py", "migrate", "--no-input"],
    "backup": ["manage.py", "backup", "/nowhere/backup"],
}


@contextmanager
def pooled(server_url: str, directory: Path, mode: str, **more: str | int) -> Iterator[str]:
    """Run PgBouncer in front of a server; yield the URL of the same database behind it. `more`: of its settings."""
    at, port = conninfo_to_dict(server_url), free_port()
    (directory / "users").write_text(f'"{at["user"]}" "{at.get("password", "")}"\n')
    settings = "\n".join(f"{name} = {value}" for name, value in more.items())
    (directory / "pgbouncer.ini").write_text(
        f"""[databases]
{at["dbname"]} = host={at["host"]} port={at["port"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {directory}/users
pool_mode = {mode}
{settings}
"""
    )
    directory.chmod(0o755)
    program = find_program("pgbouncer")
    assert program, "PgBouncer is missing: apt-get install pgbouncer"
    # It refuses to run as root.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    for file in directory.iterdir():
        os.chown(file, pwd.getpwnam("nobody").pw_uid if user else os.geteuid(), -1)
    login = f"{at['user']}:{at['password']}" if at.get("password") else at["user"]
    url = f"postgresql://{login}@127.0.0.1:{port}/{at['dbname']}"
    with subprocess.Popen([program, "-q", *user, directory / "pgbouncer.ini"]) as process:
        try:
            until = time.monotonic() + 30
            while True:
                try:
                    psycopg.connect(url, connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < until
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def started(what: str, url: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Begin as this process does."""
    own = {"DATABASE_URL": url, "POISONADMIN_HOME": str(home)}
    return subprocess.run(
        [sys.executable, *STARTS[what]], cwd=PROJECT, env=os.environ | own, capture_output=True, text=True
    )


@pytest.mark.parametrize("what", ["worker", "migrate", "backup"])
def test_a_pooler_in_transaction_mode_is_refused(services: Services, tmp_path: Path, what: str) -> None:
    (tmp_path / "pooler").mkdir()
    with pooled(services.superuser_url, tmp_path / "pooler", "transaction") as url:
        refused = started(what, url, tmp_path)
    assert refused.returncode == 1
    assert REFUSED in " ".join(refused.stderr.replace("HINT: ", "").split())


@pytest.mark.parametrize("in_turn", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_it_is_refused_too_while_others_use_it(services: Services, tmp_path: Path, size: int, in_turn: int) -> None:
    (tmp_path / "pooler").mkdir()
    is_over = threading.Event()

    def use(url: str) -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as session:
            while not is_over.is_set():
                session.execute("SELECT pg_sleep(0.001)")

    settings = {"default_pool_size": size, "server_round_robin": in_turn}
    with pooled(services.superuser_url, tmp_path / "pooler", "transaction", **settings) as url:
        with ThreadPoolExecutor(4) as others:
            users = [others.submit(use, url) for _ in range(4)]
            refused = started("worker", url, tmp_path)
            is_over.set()
        for one in users:
            one.result()
        assert REFUSED in refused.stderr
        # Now nobody uses it, and it has all its connections.
        assert REFUSED in started("worker", url, tmp_path).stderr


def test_a_pooler_in_session_mode_is_taken(services: Services, tmp_path: Path) -> None:
    (tmp_path / "pooler").mkdir()
    with pooled(services.superuser_url, tmp_path / "pooler", "session") as url:
        # The next thing that it looks at.
        assert "the database lacks" in started("worker", url, tmp_path).stderr


def test_a_web_process_takes_one_in_transaction_mode(services: Services, tmp_path: Path) -> None:
    (tmp_path / "pooler").mkdir()
    with pooled(services.superuser_url, tmp_path / "pooler", "transaction") as url:
        assert "the database lacks" in started("web", url, tmp_path).stderr


class Client:
    """Sends requests with a token to a web process behind a pooler. `url`: of the database, through the pooler."""

    def __init__(self, address: str, url: str) -> None:
        self.address, self.url = address, url
        self.token = ""

    def post(self, path: str, body: Any, key: str = "") -> tuple[int, Any]:
        """Return the status of the answer, and what is in it; a body that is no bytes goes as JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Idempotency-Key": key} if key else {})
        is_lines = isinstance(body, bytes)
        headers["Content-Type"] = NDJSON if is_lines else "application/json"
        content = body if is_lines else json.dumps(body).encode()
        status, _, answer = exchange(self.address, "POST", f"{API}/{path}", content, **headers)
        return status, json.loads(answer)

    def insist(self, path: str, body: Any, key: str) -> tuple[int, Any]:
        """Send the request until it is not another one with the same key that is being carried out."""
        for _ in range(1000):
            status, answer = self.post(path, body, key)
            if status != 409:
                return status, answer
            assert answer["code"] == "idempotency_key_in_flight"
        raise AssertionError(answer)


@pytest.fixture(scope="module")
def running(test_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Run a web process behind PgBouncer in transaction mode."""
    directory = tmp_path_factory.mktemp("pooler")
    # What has to wait for a connection of the pool until here is answered with an error.
    settings = {"default_pool_size": POOL, "query_wait_timeout": 60}
    with pooled(test_database_url, directory, "transaction", **settings) as url, running_web(url) as (address, _):
        yield Client(address, url)


@pytest.fixture
def client(transactional_db: None, running: Client) -> Iterator[Client]:
    """Return an administrator; afterwards see that no session of the pool has kept anything."""
    running.token = caller_of("admin").token or ""
    make_orders_destination()
    yield running
    assert {tuple(kept) for kept in kept_by_sessions(running.url).values()} == {()}


def kept_by_sessions(url: str) -> dict[int, list[str]]:
    """Return what each of the pool's sessions holds that outlives a transaction."""
    kept: dict[int, list[str]] = {}
    with ExitStack() as until_the_end:
        for _ in range(POOL):
            # Each of the transactions, all of which are open, has a session of its own.
            session = until_the_end.enter_context(psycopg.connect(url, prepare_threshold=None))
            row = session.execute(f"SELECT pg_backend_pid(), ARRAY({_KEPT})").fetchone()
            assert row is not None
            kept[row[0]] = row[1]
    assert len(kept) == POOL
    return kept


# The names of the client and its time zone are the pooler's to restore.
_KEPT = """
SELECT 'lock ' || classid FROM pg_locks WHERE locktype = 'advisory'
UNION ALL SELECT 'prepared ' || statement FROM pg_prepared_statements
UNION ALL SELECT 'cursor ' || statement FROM pg_cursors WHERE is_holdable
UNION ALL SELECT 'channel ' || channel FROM pg_listening_channels() AS channel
UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relpersistence = 't'
UNION ALL SELECT 'setting ' || name FROM pg_settings WHERE source = 'session' AND name NOT IN (
    'application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')
"""


def test_the_same_keys_from_several_sides_at_once_are_carried_out_once(client: Client) -> None:
    """Batches without ids, so that one which is carried out twice shows."""
    keys = [f"key {n}" for n in range(8)]
    lines = b"\n".join(b'{"address": "orders.eu", "payload": "x"}' for _ in range(50))
    requests: list[Callable[[str], tuple[int, Any]]] = [
        lambda key: client.insist("messages/", {"address": "orders.eu", "payload": key}, f"one {key}"),
        lambda key: client.insist("messages/batch/", lines, f"many {key}"),
        lambda key: client.post("messages/", {"address": "orders.eu", "payload": key}),
    ]
    with ThreadPoolExecutor(16) as clients:
        answers = [(n, key, clients.submit(requests[n], key)) for _ in range(4) for key in keys for n in range(3)]
        found = [(n, key, one.result()) for n, key, one in answers]
    assert Counter((n, status) for n, _, (status, _) in found) == {(0, 201): 32, (1, 202): 32, (2, 201): 32}
    for n in (0, 1):
        assert len({(key, json.dumps(answer)) for of, key, (_, answer) in found if of == n}) == len(keys), "one answer"
    assert Message.objects.count() == len(keys) * (1 + 50 + 4)
    assert IdempotencyKey.objects.filter(status__isnull=False).count() == IdempotencyKey.objects.count() == 16


def test_a_decision_on_a_filter_is_made_once(client: Client) -> None:
    for _ in range(20):
        take_dead()
    request = {"selection": {"filter": {"state": "NDLV"}}, "action": "fail", "reason": "hopeless"}
    with ThreadPoolExecutor(8) as clients:
        made = list(clients.map(lambda _: client.insist("operations/", request, "key"), range(8)))
    assert {status for status, _ in made} == {202}
    assert Operation.objects.count() == 1
    assert Message.objects.filter(state="FAIL").count() == 20


def paths_of(prefix: str) -> Iterator[str]:
    """Yield each path of the routes that take nothing from it."""
    todo: list[tuple[str, Any]] = [("/", get_resolver())]
    while todo:
        begin, resolver = todo.pop()
        for one in resolver.url_patterns:
            if isinstance(one.pattern, RoutePattern) and not one.pattern.converters:
                path = begin + str(one.pattern)
                if not isinstance(one, URLPattern):
                    todo.append((path, one))
                elif path.startswith(prefix):
                    yield path


def logged_in(address: str) -> urllib.request.OpenerDirector:
    """Log in by the form, and return the browser."""
    cookies = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    browser.addheaders = [("X-Requested-With", "a test")]
    login = f"http://{address}/accounts/login/"
    with browser.open(login, timeout=300):
        token = next(one.value for one in cookies if one.name == "csrftoken")
    form = {"login": "ada", "password": PASSWORD, "csrfmiddlewaretoken": token}
    with browser.open(login, urllib.parse.urlencode(form).encode(), timeout=300) as home:
        assert home.url == f"http://{address}/"
    return browser


def test_every_page_and_list_is_shown_to_many_at_once(client: Client) -> None:
    """Logins, pages, lists of the API and exports."""
    make_user("ada", Role.ADMIN)
    for _ in range(5):
        take_dead()
    with ThreadPoolExecutor(4) as people:
        browsers = list(people.map(lambda _: logged_in(client.address), range(4)))
    # The stream has no end, a logout ends the session, and the workers that a probe asks for are not there.
    paths = sorted({*paths_of("/")} - {f"{API}/poison-list/events/", "/accounts/logout/", "/readyz"})
    assert len(paths) > 100

    def status(path: str, browser: urllib.request.OpenerDirector) -> int:
        try:
            with browser.open(f"http://{client.address}{path}", timeout=300) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    with ThreadPoolExecutor(12) as clients:
        asked = [(path, clients.submit(status, path, browser)) for browser in browsers[:2] for path in paths]
        answers = {(path, one.result()) for path, one in asked}
    assert not [(path, code) for path, code in answers if code >= 500]
    assert {("/", 200), ("/triage/", 200), ("/triage/messages.csv", 200), (f"{API}/messages/", 200)} <= answers
    assert len([code for _, code in answers if code == 200]) > 80
    asked_report = {"kind": "failures", "format": "json", "columns": ["id"], "filter": {}}
    assert client.post("reports/", asked_report)[1]["count"] == 5


def test_the_poison_list_is_followed_without_notifications(client: Client) -> None:
    report(Report("orders.eu", "1", "it kills", fatal=True, crash_limit=1), principal=SYSTEM)
    stream = http.client.HTTPConnection(client.address, timeout=60)
    path = f"{API}/poison-list/events/?source=orders.eu"
    stream.request("GET", path, headers={"Authorization": f"Bearer {client.token}"})
    try:
        events = (line.strip() for line in stream.getresponse() if line.startswith(b"event:"))
        assert list(islice(events, 2)) == [b"event: listed", b"event: loaded"]
        client.post("poison-list/", {"source": "orders.eu", "bookmark": "2", "why": "it fails"})
        assert next(events) == b"event: listed"
        listed = json.loads(
            exchange(client.address, "GET", f"{API}/poison-list/", Authorization=f"Bearer {client.token}")[2]
        )
        client.post(f"poison-list/{listed['results'][0]['id']}/release/", {"reason": "mended"})
        assert next(events) == b"event: released"
        assert client.post("messages/", {"address": "orders.eu", "payload": "x"})[0] == 201, "beside the stream"
    finally:
        stream.close()
