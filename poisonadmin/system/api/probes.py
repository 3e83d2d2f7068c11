"""Probes for machines, at the root: liveness and readiness.

`/healthz` says that the process answers and asks nothing of anyone. `/readyz` says that the database is there with this
version's tables, the queue too, and that workers take ticks, within two seconds whatever hangs; `/readyz?for=web`
leaves the workers out.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_safe
from psycopg_pool import PoolTimeout

from poisonadmin.system.queries.overview import silent_kinds

QUEUE_SECONDS = 1.0
ANSWER_SECONDS = 1.5
OK = "ok"


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer."""
    return JsonResponse({"status": OK})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when requests can be served, 503 with what is missing otherwise."""
    asked = {"database": _database, "queue": _queue}
    if request.GET.get("for") != "web":
        asked["workers"] = _workers
    begun = {name: _begun(name, check) for name, check in asked.items()}
    until = time.monotonic() + ANSWER_SECONDS
    checks = {name: _answer(check, until) for name, check in begun.items()}
    is_ready = all(state == OK for state in checks.values())
    return JsonResponse({"status": OK if is_ready else "not ready", "checks": checks}, status=200 if is_ready else 503)


# Checks that have not answered, by their names, each with when it began. After a failover an old one may hang for
# minutes on a server that is gone: so a new one is begun after a while, and no more than a few hang at once.
_checks: dict[str, list[tuple[float, "Future[str]"]]] = {}
_lock = threading.Lock()
MOST_HANGING = 3
AGAIN_SECONDS = 5.0


def _begun(name: str, check: Callable[[], str]) -> "Future[str]":
    now = time.monotonic()
    with _lock:
        hanging = _checks[name] = [one for one in _checks.get(name, ()) if not one[1].done()]
        if not hanging or (len(hanging) < MOST_HANGING and now - hanging[-1][0] > AGAIN_SECONDS):
            hanging.append((now, Future()))
            threading.Thread(target=_carry_out, args=[check, hanging[-1][1]], name="readiness", daemon=True).start()
        return hanging[-1][1]


def _carry_out(check: Callable[[], str], into: "Future[str]") -> None:
    try:
        try:
            found = check()
        finally:
            connection.close()
    except Exception as error:
        into.set_exception(error)
    else:
        into.set_result(found)


def _answer(check: "Future[str]", until: float) -> str:
    try:
        return check.result(max(until - time.monotonic(), 0))
    except TimeoutError:
        return f"does not answer within {ANSWER_SECONDS} s"


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT app, name FROM django_migrations")
            missing = _migrations() - set(cursor.fetchall())
    except (DatabaseError, PoolTimeout):
        return "does not answer, or was never migrated"
    return f"{len(missing)} migrations are not applied" if missing else OK


@lru_cache(maxsize=1)
def _migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)


def _queue() -> str:
    options = {"socket_timeout": QUEUE_SECONDS, "socket_connect_timeout": QUEUE_SECONDS}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **options) as client:
            client.ping()
    except (redis.RedisError, OSError):
        return "does not answer"
    return OK


def _workers() -> str:
    try:
        silent = silent_kinds()
    except (DatabaseError, PoolTimeout):
        return "are not known without the database"
    return ", ".join(_silence(kind, seconds) for kind, seconds in silent.items()) or OK


def _silence(kind: str, seconds: float) -> str:
    if kind:
        return f"{kind} has taken no tick for {seconds:.0f} s"
    return f"no worker has taken a tick for {seconds:.0f} s: see whether the beat runs"


PROBES = [path("healthz", healthz), path("readyz", readyz)]
