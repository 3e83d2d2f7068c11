"""Tries everything that an installation needs, one thing after the other, and says what to do about what is wrong."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.mail import get_connection
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.queries.conditions import ENOUGH_FREE_BYTES, LEAST_FREE_SHARE
from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.domain.encryption import encryption_keys
from poisonadmin.core.domain.errors import first_line
from poisonadmin.core.domain.secret_settings import ENCRYPTION_KEYS, FILE_OF
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.messages.queries.archived_index import archive_file_system
from poisonadmin.sources.queries import switched_on_sources
from poisonadmin.store.schema import has_sessions
from poisonadmin.system.commands.encryption import unreadable
from poisonadmin.system.queries.metrics import archive_unfinished_seconds, worker_disks
from poisonadmin.system.queries.overview import silent_kinds, worker_silences

MOST_CLOCK_SECONDS = 2.0
WORKERS = ("io", "spark-batch", "spark-redelivery")
SECONDS = 5


@dataclass(frozen=True)
class Diagnosis:
    """One thing, and its condition in words. `advice`: what to do; empty where all is well."""

    thing: str
    words: str
    advice: str = ""


def examine() -> Iterator[Diagnosis]:
    """Yield what is found of each thing. Without the database, what is kept in it is left out."""
    yield from _settings()
    try:
        yield from _database()
    except DatabaseError as error:
        yield Diagnosis("database", first_line(error), "start PostgreSQL, or correct DATABASE_URL")
        yield from _each({"queue": _queue, "archive": _archive, "mail": _mail})
        return
    kept = {
        "secrets": _secrets,
        "workers": _workers,
        "disks": _disks,
        "sources": _sources,
        "alerts": _alerts,
        "archive run": _archive_run,
    }
    yield from _each({"queue": _queue, "archive": _archive, "mail": _mail, **kept, "counts": _counts})


def _each(things: dict[str, Callable[[], Iterator[Diagnosis]]]) -> Iterator[Diagnosis]:
    for thing, examined in things.items():
        try:
            yield from examined()
        except Exception as error:  # whatever it is, the other things are to be tried
            yield Diagnosis(thing, first_line(error), "see the log")


def _settings() -> Iterator[Diagnosis]:
    for text in settings.UNKNOWN_VARIABLES:
        yield Diagnosis("settings", text, "remove it, or write its name as docs/operate/configuration.md does")
    if not settings.UNKNOWN_VARIABLES:
        yield Diagnosis("settings", "every variable is a setting")


def _database() -> Iterator[Diagnosis]:
    [version, encoding, ahead] = fetch_rows(
        "SELECT current_setting('server_version'), current_setting('server_encoding'),"
        " extract(epoch FROM clock_timestamp())::float8 - %s",
        [time.time()],
    )[0]
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    advice = f"run manage.py migrate: {len(missing)} migrations are missing" if missing else ""
    if encoding != "UTF8":
        advice = "create the database with ENCODING 'UTF8' TEMPLATE template0"
    pooled = "" if has_sessions() else ", behind a pooler in transaction mode, which only a web process may be"
    yield Diagnosis("database", f"PostgreSQL {version} in {encoding}{pooled}", advice)
    is_off = abs(ahead) > MOST_CLOCK_SECONDS
    yield Diagnosis("clock", f"{abs(ahead):.1f} s from the database's", "synchronise both machines" if is_off else "")


def _queue() -> Iterator[Diagnosis]:
    place = urlsplit(settings.REDIS_URL)
    where = f"{place.hostname}:{place.port or 6379}"
    options = {"socket_timeout": SECONDS, "socket_connect_timeout": SECONDS}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **options) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        yield Diagnosis("queue", f"{where}: {first_line(error)}", "start Valkey or Redis, or correct REDIS_URL")
    else:
        yield Diagnosis("queue", f"{where} answers")


def _archive() -> Iterator[Diagnosis]:
    place = within(settings.ARCHIVE, f"doctor-{secrets.token_hex(8)}")
    try:
        files, path = archive_file_system(place)
        if "://" not in settings.ARCHIVE:
            files.create_dir(archive_file_system(settings.ARCHIVE)[1], recursive=True)
        with files.open_output_stream(path) as file:
            file.write(b"x")
        files.delete_file(path)
    except (OSError, ValueError) as error:
        yield Diagnosis("archive", first_line(error), "make the place, its keys and its network right")
    else:
        yield Diagnosis("archive", f"{settings.ARCHIVE.partition('?')[0]} takes files")


def _mail() -> Iterator[Diagnosis]:
    if not settings.EMAIL_HOST:
        yield Diagnosis("mail", "none is sent: POISONADMIN_MAIL_URL is not set")
        return
    try:
        with get_connection():
            yield Diagnosis("mail", f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT} takes our login")
    except OSError as error:
        yield Diagnosis("mail", first_line(error), "correct POISONADMIN_MAIL_URL, or start the mail server")


def _secrets() -> Iterator[Diagnosis]:
    is_encrypting = bool(encryption_keys(os.environ))
    words = "new ones are encrypted" if is_encrypting else "they are stored as they are"
    advice = "" if is_encrypting else f"name a file of keys in {FILE_OF[ENCRYPTION_KEYS]}"
    if lost := list(unreadable()):
        words, advice = f"no key decrypts those of {', '.join(lost)}", "add their key, or run manage.py encrypt_secrets"
    yield Diagnosis("secrets", words, advice)


def _workers() -> Iterator[Diagnosis]:
    silent = silent_kinds()
    known = {name.partition("@")[0] for name, _ in worker_silences()}
    if "" in silent:
        yield Diagnosis("workers", f"none has taken a tick for {silent['']:.0f} s", "start the beat")
        return
    for kind in WORKERS:
        if kind not in known:
            yield Diagnosis("workers", f"no {kind} has ever taken a tick", f"start a worker {kind}")
        elif kind in silent:
            yield Diagnosis("workers", f"{kind} has been silent for {silent[kind]:.0f} s", f"start a worker {kind}")
        else:
            yield Diagnosis("workers", f"{kind} takes ticks")


def _disks() -> Iterator[Diagnosis]:
    for worker, path, free, size in worker_disks():
        words = f"{free / 2**30:,.1f} of {size / 2**30:,.1f} GiB are free at {path} for {worker}"
        yield Diagnosis(
            "disks", words, "make room there" if free < min(LEAST_FREE_SHARE * size, ENOUGH_FREE_BYTES) else ""
        )


def _sources() -> Iterator[Diagnosis]:
    for source in switched_on_sources():
        if source.is_in_trouble:
            words = f"{source.name} cannot be read: {one_line(source.last_error or '')}"
            yield Diagnosis("sources", words, "see its page")
        else:
            yield Diagnosis("sources", f"{source.name} is read")


def _alerts() -> Iterator[Diagnosis]:
    for name in fetch_values("SELECT name FROM alert_rule WHERE is_enabled AND failing_since IS NOT NULL ORDER BY 1"):
        yield Diagnosis("alerts", f"the rule {name} cannot be sent", "see its deliveries for the answer")


def _archive_run() -> Iterator[Diagnosis]:
    if seconds := archive_unfinished_seconds():
        words = f"its latest run began {seconds / 3600:.1f} h ago and has not succeeded"
        yield Diagnosis("archive", words, "" if seconds < 3600 else "see the page Archive for the error")


def _counts() -> Iterator[Diagnosis]:
    wrong = fetch_values("SELECT coalesce(sum(wrong), 0)::bigint FROM counter_check")[0]
    advice = "run manage.py verify_counts --repair" if wrong else ""
    yield Diagnosis("counts", f"wrong by {wrong:,} messages" if wrong else "right when they were last compared", advice)
