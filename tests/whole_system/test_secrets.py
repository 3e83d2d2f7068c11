"""A canary planted in every secret is found nowhere that it should not be."""

import contextlib
import http.server
import os
import secrets
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from poisonadmin.core.domain.secret_settings import write_private
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import MARK
from tests.whole_system import searched_places as places
from tests.whole_system.handler_destination import HANDLERS, HandlerDestination
from tests.whole_system.http_destination import PROMPT
from tests.whole_system.installation import PROJECT, Installation, until

USER = "pat"
pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Planted:
    """An installation and the canary in each of its secrets."""

    installation: Installation
    canaries: dict[str, str]

    def leaks(self, found: places.Found) -> set[tuple[str, str]]:
        """Return (place, canary) of each that is found; the token of the first start counts as one."""
        planted = {name: text.encode() for name, text in self.canaries.items()}
        return {(place, name) for place, data in found for name, text in planted.items() if text in data}


class _Echo(http.server.BaseHTTPRequestHandler):
    """Fails each request and sends back what it was sent, as careless consumers do."""

    def do_POST(self) -> None:
        said = "".join(f"{name}: {value}\n" for name, value in self.headers.items()).encode()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500, f"no {self.headers['X-Signature']}")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def echoing() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """An installation that says all that it can, with a canary in each secret, after everything has gone wrong once."""
    kinds = ("database", "superuser", "queue", "key", "header", "signature", "broker", "password", "refused", "typo")
    canaries = {kind: f"canary-{kind}-{secrets.token_hex(12)}" for kind in kinds}
    home = tmp_path_factory.mktemp("planted")
    (home / "planted").mkdir(mode=0o700)
    for name, kind in (
        ("postgres-password", "database"),
        ("postgres-superuser-password", "superuser"),
        ("valkey-password", "queue"),
        ("planted/key", "key"),
        ("planted/password", "password"),
    ):
        write_private(home / name, canaries[kind])
    running = Installation(
        home,
        POISONADMIN_SECRET_KEY_FILE=str(home / "planted" / "key"),
        POISONADMIN_BROKER_PASSWORD=canaries["broker"],
        POISONADMIN_HANDLER_PATH=str(HANDLERS),
        POISONADMIN_LOG_LEVEL="DEBUG",
    )
    try:
        running.until_ready()
        canaries["token"] = running.token
        with echoing() as echo:
            _configure(running, canaries, echo)
            _go_wrong(running)
        yield Planted(running, canaries)
    finally:
        running.stop()


def _manage(running: Installation, *arguments: str, said: str = "", **more: str) -> str:
    ended = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=dict(os.environ) | dict.fromkeys(("DATABASE_URL", "REDIS_URL"), "") | running.environment | more,
        input=said,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.stdout + ended.stderr


def _configure(running: Installation, canaries: dict[str, str], echo: str) -> None:
    closed = f"amqp://127.0.0.1:{free_port()}/"
    login = {"username": "drain", "password": canaries["broker"]}
    headers = {"Authorization": f"Bearer {canaries['header']}", "X-Signature": canaries["signature"]}
    http_kind: dict[str, Any] = {"kind": "http", "secrets": headers}
    for name, url in (("echo", echo), ("closed", f"http://127.0.0.1:{free_port()}/")):
        running.post("destinations/", http_kind | {"name": name, "config": {"url": url}})
    running.post("destinations/", {"name": "rabbit", "kind": "rabbitmq", "config": {"url": closed}, "secrets": login})
    for name in ("echo", "closed", "rabbit"):
        running.post("policies/", {"match": f"{name}.#", "settings": PROMPT, "destination": name})
        running.post("messages/", {"address": f"{name}.orders", "payload": "a body"})
    source = {"name": "drained", "kind": "rabbitmq", "config": {"url": closed, "queues": ["dlq"]}, "secrets": login}
    running.post("sources/", source)
    said = _manage(running, "user", "create", USER, "--role", "admin", said=f"{canaries['password']}\n")
    assert "Error" not in said
    # What is refused is not repeated either.
    wrong: Iterable[tuple[str, Any]] = (
        ("destinations/", http_kind | {"name": "x", "config": {"url": "x"}, "secrets": {"A b": canaries["refused"]}}),
        (
            "destinations/",
            http_kind | {"name": "y", "config": {"url": echo, "headers": {"Authorization": canaries["refused"]}}},
        ),
        ("destinations/", http_kind | {"name": "z", "config": {"url": f"http://u:{canaries['refused']}@127.0.0.1/"}}),
        (
            "sources/",
            source | {"name": "w", "config": {"url": f"amqp://u:{canaries['refused']}@127.0.0.1", "queues": ["q"]}},
        ),
        ("sources/", source | {"name": "v", "secrets": {"password": [canaries["refused"]]}}),
        ("broker-checks/", {"purpose": "connection", **{key: source[key] for key in ("kind", "config", "secrets")}}),
    )
    for path, body in wrong:
        answer = running.ask("POST", path, body)
        assert canaries["refused"].encode() not in answer.body, answer.body
    assert places.logged_in(running, USER, canaries["typo"])[1] is False
    running.ask("GET", "messages/", headers={"Authorization": f"Bearer {canaries['typo']}"})


def _go_wrong(running: Installation) -> None:
    """Wait for the failures of deliveries and drains, then take the services away for a moment."""
    failed = "SELECT count(DISTINCT message_id) FROM attempt WHERE error_class IS NOT NULL"
    until(lambda: running.rows(failed)[0][0] >= 3, 60, lambda: running.output[-3000:])
    for name in ("postgres", "valkey"):
        killed = running.pid_of(name)
        psutil.Process(killed).send_signal(signal.SIGKILL)
        until(lambda name=name, killed=killed: running.pid_of(name) != killed, 60)
    until(running.is_ready, 60)


def test_no_log_or_file_shows_a_secret(planted: Planted) -> None:
    assert planted.leaks(places.files(planted.installation.home)) == set()
    for path in places.private_files(planted.installation.home):
        inside_private = any(stat.S_IMODE(parent.stat().st_mode) == 0o700 for parent in path.parents)
        assert inside_private or stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_no_command_line_or_environment_shows_a_secret(planted: Planted) -> None:
    running = planted.installation
    destination = HandlerDestination.create(running, "slow", config={"timeout_ms": 60_000})
    destination.send("sleep 20")
    until(lambda: any("child.py" in " ".join(_cmdline(one)) for one in places.processes(running)), 60)
    supervisor = running.process.pid
    shown = [
        (place, data)
        for place, data in places.command_lines_and_environments(running)
        # What its user has put into the supervisor's own environment is there; no child has it.
        if place != f"environ of {supervisor}"
    ]
    names = {Path(part).name for _, data in shown for part in os.fsdecode(data).split("\0")}
    expected = {"java", "child.py", "postgres", "workers.celery_app", "workers.spark.daemon"}
    assert expected | {"poisonadmin.serve"} <= names
    assert planted.leaks(iter(shown)) == set()


def _cmdline(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def test_no_answer_or_export_of_the_api_shows_a_secret(planted: Planted) -> None:
    seen = dict(places.answers(planted.installation))
    assert len(seen) > 30
    assert planted.leaks(iter(seen.items())) == set()


def test_no_page_shows_a_secret(planted: Planted) -> None:
    seen = dict(places.pages(planted.installation, USER, planted.canaries["password"]))
    shown = {place.partition("?")[0] for place in seen}
    assert {"/", "/triage/", "/addresses/one/", "/destinations/one/", "/policies/", "/sources/", "/audit/"} <= shown
    assert len(seen) > 100
    assert planted.leaks(iter(seen.items())) == set()


def test_no_page_of_spark_and_no_traceback_of_a_task_shows_a_secret(planted: Planted, tmp_path: Path) -> None:
    running = planted.installation
    # The password is right; the database is not there.
    url = running.database_url.replace(
        f"@127.0.0.1:{running.database_url.rpartition(':')[2]}", f"@127.0.0.1:{free_port()}/x"
    )
    write_private(tmp_path / "url", url)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.whole_system.spark_pages"],
        cwd=PROJECT,
        env=running.process_of("spark").environ() | {"DATABASE_URL_FILE": str(tmp_path / "url"), MARK: ""},
        capture_output=True,
        timeout=300,
    )
    said = ended.stdout + ended.stderr
    assert b"failed as it should" in said
    for page in (b"page environment/", b"page executors/", b"page stages/stage/?id=0", b"page api/v1/"):
        assert page in said, said[-3000:]
    assert b"OperationalError" in said
    assert planted.leaks(iter([("Spark's pages and the task's traceback", said)])) == set()


@pytest.mark.parametrize("arguments", [("check", "--database", "default"), ("migrate", "--plan"), ("token", "list")])
def test_no_traceback_of_a_command_shows_a_secret(arguments: tuple[str, ...], planted: Planted, tmp_path: Path) -> None:
    for number, change in enumerate((("@127.0.0.1:", "@127.0.0.1:1"), ("postgresql://poisonadmin", "postgresql://x"))):
        write_private(tmp_path / f"url-{number}", planted.installation.database_url.replace(*change))
        said = _manage(planted.installation, *arguments, DATABASE_URL_FILE=str(tmp_path / f"url-{number}"))
        assert "Error" in said or "must be" in said
        assert planted.leaks(iter([("a command", said.encode())])) == set()


def test_the_search_finds_what_is_there(planted: Planted) -> None:
    running, canary = planted.installation, f"canary-made-up-{secrets.token_hex(6)}"
    made_up = Planted(running, {"made up": canary})
    leaking = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", canary],
        env={MARK: str(running.home), "PGPASSWORD": canary},
    )
    log = running.home / "leak.log"
    log.write_text(f"connection to postgresql://poisonadmin:{canary}@127.0.0.1/poisonadmin failed")
    running.post("messages/", {"address": "leak.orders", "payload": "a body", "message_id": canary})
    try:
        shown = {place for place, _ in made_up.leaks(places.command_lines_and_environments(running))}
        assert shown == {f"environ of {leaking.pid}", f"cmdline of {leaking.pid}"}
        assert made_up.leaks(places.files(running.home)) == {("leak.log", "made up")}
        assert ("/api/v1/messages/", "made up") in made_up.leaks(places.answers(running))
        assert made_up.leaks(places.pages(running, USER, planted.canaries["password"]))
    finally:
        leaking.kill()
        leaking.wait()
        log.unlink()
