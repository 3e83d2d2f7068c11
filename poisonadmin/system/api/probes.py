"""Whether we live, whether we can work, how we do: at the root, for machines.

`/healthz` says that the process answers and asks nothing of anyone. `/readyz` says that the database is there with this
version's tables, and the queue too. `/metrics` counts; it needs a token or session with `read`, or a caller on this
machine that no proxy speaks for.
"""

from functools import lru_cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_safe
from psycopg_pool import PoolTimeout
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.principals import principal_of_user
from poisonadmin.system.api.metrics import CONTENT_TYPE, exposition
from poisonadmin.web.api.authentication import TokenAuthentication
from poisonadmin.web.api.problems import plain_problem

LOOPBACK = frozenset({"127.0.0.1", "::1"})
QUEUE_SECONDS = 1.0
OK = "ok"


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer."""
    return JsonResponse({"status": OK})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when requests can be served, 503 with what is missing otherwise."""
    checks = {"database": _database(), "queue": _queue()}
    is_ready = all(state == OK for state in checks.values())
    return JsonResponse({"status": OK if is_ready else "not ready", "checks": checks}, status=200 if is_ready else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the counts in Prometheus' text format."""
    if not _may_see_metrics(request):
        detail = "Metrics need a token or session with the permission `read`."
        return plain_problem(request, status=403, code="not_allowed", detail=detail)
    try:
        return HttpResponse(exposition(), content_type=CONTENT_TYPE)
    except (DatabaseError, PoolTimeout):
        return plain_problem(request, status=503, code="unavailable", detail="The database does not answer.")


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


def _may_see_metrics(request: HttpRequest) -> bool:
    headers = request.headers
    is_direct = not any(name in headers for name in ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"))
    if is_direct and request.META.get("REMOTE_ADDR") in LOOPBACK:
        return True
    principal = _principal(request)
    return principal is not None and principal.may(Permission.READ) and principal.sees_everything


def _principal(request: HttpRequest) -> Principal | None:
    try:
        found = TokenAuthentication().authenticate(Request(request))
    except APIException:
        return None
    return found[1] if found else principal_of_user(request.user)


urlpatterns = [path("healthz", healthz), path("readyz", readyz), path("metrics", metrics)]
