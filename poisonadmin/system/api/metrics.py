"""`/metrics` for Prometheus, at the root. Each scrape reads the database, so that any web process tells all of it; only
what it says of HTTP and of its own process is of that process alone.

It needs a token or session with `read`, or a caller on this machine that no proxy speaks for.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from poisonadmin.core.commands.authentication import LocalLoginOff, SecondFactorMissing, principal_of_session
from poisonadmin.core.domain.access import SYSTEM, Permission, Principal
from poisonadmin.core.queries.rows import database_time
from poisonadmin.messages.queries.counts import Counts, counts
from poisonadmin.sources.queries import SourceRow, switched_on_sources
from poisonadmin.system.domain.metrics import BUCKETS, COUNTERS, MOST_VALUES, OTHER, SECONDS, SUM
from poisonadmin.system.queries.metrics import (
    archive_unfinished_seconds,
    counted_until,
    plain_figures,
    totals,
    worker_disks,
)
from poisonadmin.system.queries.overview import recent_jobs, system_metrics, worker_silences
from poisonadmin.web.api.authentication import TokenAuthentication
from poisonadmin.web.api.observed import REQUESTS
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
    "archive_unfinished_seconds": "Since when the archive's latest run is under way or has failed; 0: it succeeded.",
    "oldest_job_seconds": "How long the job has waited that has waited longest.",
    "waiting_operations": "Operations that were halted or wait for a sign-off.",
    "database_bytes": "Size of the database.",
}
LOOPBACK = frozenset({"127.0.0.1", "::1"})
# What proxies add to a request, whichever of it they are told to add.
_OF_A_PROXY = re.compile(r"forwarded|via|x-real-ip|x-(forwarded|original|client|envoy|cluster)-.*", re.IGNORECASE)
_READ = ("accepted", "duplicates", "rejected", "returned")


class _Figures(Collector):
    """Reads at each scrape; nothing is kept in this process, of which there may be several."""

    def collect(self) -> Iterator[Metric]:
        found = counts(SYSTEM)
        yield _gauge("messages", "Messages by state.", ["state"], found.by_state.items())
        about = "Messages by state and the first word of their address."
        yield _gauge("messages_of_root", about, ["root", "state"], _of_roots(found))
        stopped = ((state, reason, n) for reason, states in found.by_reason.items() for state, n in states.items() if n)
        yield _gauge("stopped_messages", "Messages in NDLV and FAIL by reason.", ["state", "reason"], stopped)
        yield _gauge("jobs", "Jobs of the last hour by kind and state.", ["kind", "state"], recent_jobs())
        yield _gauge("worker_silence_seconds", "Time since a worker was at a tick.", ["worker"], worker_silences())
        disks = worker_disks()
        free, size = "Free bytes of the worker's disk with the least room.", "Size of that disk."
        yield _gauge("disk_free_bytes", free, ["worker", "path"], ((*of, n) for *of, n, _ in disks))
        yield _gauge("disk_bytes", size, ["worker", "path"], ((*of, n) for *of, _, n in disks))
        yield from _of_sources()
        figures = {**vars(system_metrics()), **vars(plain_figures())}
        figures["archive_unfinished_seconds"] = archive_unfinished_seconds()
        for name, about in _PLAIN.items():
            yield GaugeMetricFamily(f"poisonadmin_{name}", about, value=figures[name])
        until = counted_until()
        about = "Until when the counters below have counted, in seconds since 1970."
        yield GaugeMetricFamily("poisonadmin_counted_until_seconds", about, value=until.timestamp() if until else 0)
        yield from _of_history()


def _gauge(name: str, about: str, labels: Sequence[str], rows: Iterable[Sequence[str | float]]) -> Metric:
    """Return a gauge of rows, each the values of the labels and the number."""
    family = GaugeMetricFamily(f"poisonadmin_{name}", about, labels=labels)
    for *values, n in rows:
        family.add_metric([str(value) for value in values], float(n))
    return family


def _of_roots(found: Counts) -> Iterator[tuple[str, str, int]]:
    """Yield root, state and number of the roots with the most messages, and of the others together."""
    of_root: Counter[str] = Counter()
    for address, states in found.by_address.items():
        of_root[address.partition(".")[0]] += sum(states.values())
    named = {root for root, _ in of_root.most_common(MOST_VALUES)}
    sums: Counter[tuple[str, str]] = Counter()
    for address, states in found.by_address.items():
        root = address.partition(".")[0]
        sums.update({(root if root in named else OTHER, state): n for state, n in states.items() if n})
    yield from ((root, state, n) for (root, state), n in sorted(sums.items()))


def _of_sources() -> Iterator[Metric]:
    sources, now = switched_on_sources(), database_time()
    lags = [(one.name, one.lag) for one in sources if one.lag is not None]
    yield _gauge("source_lag", "Messages that wait in a source.", ["source"], lags)
    about = "Time since a source was read without an error; 0 while there is none."
    yield _gauge("source_unread_seconds", about, ["source"], _unread(sources, now))
    read = CounterMetricFamily(
        "poisonadmin_source_messages", "Messages read from a source.", labels=["source", "result"]
    )
    for one in sources:
        for result in _READ:
            read.add_metric([one.name, result], getattr(one, result))
    yield read


def _unread(sources: Sequence[SourceRow], now: datetime) -> Iterator[tuple[str, float]]:
    for one in sources:
        yield one.name, (now - one.trouble_since).total_seconds() if one.trouble_since else 0.0


def _of_history() -> Iterator[Metric]:
    series = totals()
    for metric, declared in COUNTERS.items():
        of_metric = {labels: total for (name, labels), total in sorted(series.items()) if name == metric}
        if metric != SECONDS:
            family = CounterMetricFamily(f"poisonadmin_{metric}", declared.about, labels=declared.labels)
            for labels, total in of_metric.items():
                family.add_metric(labels, total)
            yield family
            continue
        histogram = HistogramMetricFamily(f"poisonadmin_{metric}", declared.about, labels=declared.labels[:1])
        for destination in {labels[0]: None for labels in of_metric}:
            found = [of_metric.get((destination, str(place)), 0.0) for place in range(len(BUCKETS) + 1)]
            ends = [*map(str, BUCKETS), "+Inf"]
            buckets = list(zip(ends, accumulate(found), strict=True))
            histogram.add_metric([destination], buckets, sum_value=of_metric.get((destination, SUM), 0.0))
        yield histogram


def _is_up(is_up: bool) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    Gauge("poisonadmin_database_up", "Whether the database has answered this scrape.", registry=registry).set(is_up)
    return registry


def _exposition() -> bytes:
    """Return the metrics as text; without an answer of the database, those of this process and that there is none."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures())
    try:
        read, is_up = generate_latest(registry), True
    except (DatabaseError, PoolTimeout):
        read, is_up = b"", False
    own = _is_up(is_up)
    ProcessCollector(registry=own)
    return read + generate_latest(own) + generate_latest(REQUESTS)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the figures in Prometheus' text format."""
    try:
        if not _may_see_metrics(request):
            detail = "Metrics need a token or session with the permission `read`."
            return plain_problem(request, status=403, code="not_allowed", detail=detail)
        content = _exposition()
    except (DatabaseError, PoolTimeout):  # whose token it is nobody can say
        content = generate_latest(_is_up(False))
    return HttpResponse(content, content_type=CONTENT_TYPE_LATEST)


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


METRICS = [path("metrics", metrics)]
