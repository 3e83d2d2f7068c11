"""What a monitoring system should know, read from the database when it asks."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.messages.queries.counts import counts
from poisonadmin.system.queries import metrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PLAIN = {
    "due": "Messages that should be delivered now, counted to 10,000.",
    "overdue": "Messages that are late by more than 10 s, counted to 10,000.",
    "stuck": "Messages in DLNG more than 10 s past their lease.",
    "oldest_due_seconds": "How long the longest waiting due message has waited beyond its time.",
    "oldest_undecided_seconds": "How long the oldest message in NDLV has been there.",
    "nodes_alive": "Processes that deliver now.",
    "unanswered": "Messages delivered to a broker whose consumer confirmation is overdue, counted to 10,000.",
    "unfolded_deltas": "Rows of counter_delta that no tick has folded yet.",
}


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
        for kind, state, n in metrics.recent_jobs():
            jobs.add_metric([kind, state], n)
        yield jobs
        values = metrics.system_metrics()
        for name, about in _PLAIN.items():
            yield GaugeMetricFamily(f"poisonadmin_{name}", about, value=getattr(values, name))


def exposition() -> bytes:
    """Return the metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Messages())
    ProcessCollector(registry=registry)
    return generate_latest(registry)
