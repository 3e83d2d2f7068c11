"""Probes for machines, at the root: liveness, readiness and metrics.

`/healthz` says that the process answers and asks nothing of anyone. `/readyz` says that the database is there with this
version's tables, the queue too, and that workers take ticks, within two seconds whatever hangs; `/readyz?for=web`
leaves the workers out. `/metrics` counts; it needs a token or session with `read`, or a caller on this machine that no
proxy speaks for.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import lru_cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from poisonadmin.core.commands.authentication import LocalLoginOff, SecondFactorMissing, principal_of_session
from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.messages.queries.counts import counts
from poisonadmin.system.queries.overview import recent_jobs, silent_kinds, system_metrics, worker_silences
from poisonadmin.web.api.authentication import TokenAuthentication
from poisonadmin.web.api.problems import plain_problem

_PLAIN = {
    "due": "Messages that should be delivered now, counted to 10,000.",
    "overdue": "Messages that are late by more than 10 s, counted to 10,000.",
    "held": "Messages that have come due on an address that does not deliver, or behind one that waits for a decision,"
    " counted to 10,000.",
    "stuck": "Messages in DLNG more than 10 s past their lease.",
    "oldest_due_seconds": "How long the longest waiting due message has waited beyond its time.",
    "oldest_undecided_seconds": "How long the oldest message in NDLV has been there.",
    "nodes_alive": "Processes that deliver now.",
    "unanswered": "Messages delivered to a broker whose consumer confirmation is overdue, counted to 10,000.",
    "miscounted": "By how many messages the counts were wrong when they were last verified.",
    "unfolded_deltas": "Rows of counter_delta that no tick has folded yet.",
}
LOOPBACK = frozenset({"127.0.0.1", "::1"})
# What proxies add to a request, whichever of it they are told to add.
_OF_A_PROXY = re.compile(r"forwarded|via|x-real-ip|x-(forwarded|original|client|envoy|cluster)-.*", re.IGNORECASE)
QUEUE_SECONDS = 1.0
ANSWER_SECONDS = 1.5
OK = "ok"


class _Messages(Collector):
    """Reads at each scrape; nothing is kept in this process, of which there may be several."""

    def collect(self) -> Iterator[Metric]:
        by_state = GaugeMetricFamily("poisonadmin_messages", "Messages by state.", labels=["state"])
        by_reason = GaugeMetricFamily(
            "poisonadmin_stopped_messages", "Messages in NDLV and FAIL by reason.", labels=["state", "reason"]
        )
        found = counts(SYSTEM)
        for state, n in found.by_state.items():
            by_state.add_metric([state], n)
        for reason, states in found.by_reason.items():
            for state, n in states.items():
                if n:
                    by_reason.add_metric([state, reason], n)
        yield by_state
        yield by_reason
        jobs = GaugeMetricFamily(
            "poisonadmin_jobs", "Jobs of the last hour by kind and state.", labels=["kind", "state"]
        )
        for kind, state, n in recent_jobs():
            jobs.add_metric([kind, state], n)
        yield jobs
        silence = GaugeMetricFamily(
            "poisonadmin_worker_silence_seconds", "Time since a worker was at a tick.", labels=["worker"]
        )
        for worker, seconds in worker_silences():
            silence.add_metric([worker], seconds)
        yield silence
        values = system_metrics()
        for name, about in _PLAIN.items():
            yield GaugeMetricFamily(f"poisonadmin_{name}", about, value=getattr(values, name))


def _exposition() -> bytes:
    """Return the metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Messages())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


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


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the counts in Prometheus' text format."""
    if not _may_see_metrics(request):
        detail = "Metrics need a token or session with the permission `read`."
        return plain_problem(request, status=403, code="not_allowed", detail=detail)
    try:
        return HttpResponse(_exposition(), content_type=CONTENT_TYPE_LATEST)
    except (DatabaseError, PoolTimeout):
        return plain_problem(request, status=503, code="unavailable", detail="The database does not answer.")


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


def _may_see_metrics(request: HttpRequest) -> bool:
    is_direct = not any(map(_OF_A_PROXY.fullmatch, request.headers))
    if is_direct and request.META.get("REMOTE_ADDR") in LOOPBACK:
        return True
    principal = _principal(request)
    return principal is not None and principal.may(Permission.READ) and principal.sees_everything


def _principal(request: HttpRequest) -> Principal | None:
    try:
        found = TokenAuthentication().authenticate(Request(request))
        return found[1] if found else principal_of_session(request)
    except (APIException, SecondFactorMissing, LocalLoginOff):
        return None


PROBES = [path("healthz", healthz), path("readyz", readyz), path("metrics", metrics)]
