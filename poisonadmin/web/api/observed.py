"""Every request gets an id, and is counted and timed by its route.

Counted in this process; each web process is scraped by itself.
"""

import re
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
OTHER = "other"

disable_created_metrics()  # type: ignore[no-untyped-call]
REQUESTS = CollectorRegistry()
_count = Counter("poisonadmin_http_requests", "Requests answered.", ["route", "method", "status"], registry=REQUESTS)
_seconds = Histogram(
    "poisonadmin_http_request_seconds",
    "Time to the head of the answer.",
    ["route"],
    registry=REQUESTS,
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


def observed(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Give a request its id, that of the client or a new one, return it with the answer, and count the request."""

    def answer(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request.META["HTTP_X_REQUEST_ID"] = identity = given if _ID.fullmatch(given) else str(uuid.uuid4())
        response = get_response(request)
        response[HEADER] = identity
        # A path that is no route, or a static file.
        route = request.resolver_match.route if request.resolver_match else OTHER
        _count.labels(route, request.method if request.method in _METHODS else OTHER, response.status_code).inc()
        _seconds.labels(route).observe(time.perf_counter() - began)
        return response

    return answer
