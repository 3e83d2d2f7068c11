"""`/metrics`: what there is, what has happened, by whom it is read, and what it says without a database."""

import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.models import F
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import database_time
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.states import Event
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.metric import MetricTotal
from poisonadmin.system.api import metrics
from poisonadmin.system.commands.metric_totals import add_up
from poisonadmin.system.domain.metrics import MOST_VALUES
from poisonadmin.system.queries.metrics import counted_until, totals
from tests.fixtures import decisions
from tests.fixtures.api import Caller
from tests.fixtures.delivery import answer, claim, enqueue, make_destination
from tests.system.test_probes import silent


def scraped(**labels: str) -> dict[str, float]:
    """Return the samples with the labels, by name."""
    families = text_string_to_metric_families(Client().get("/metrics").content.decode())
    samples = [sample for family in families for sample in family.samples]
    return {one.name: one.value for one in samples if labels.items() <= one.labels.items()}


def test_metrics_count_what_there_is(one_of_each: dict[str, Any]) -> None:
    text = Client().get("/metrics").content.decode()
    assert 'poisonadmin_messages{state="NDLV"} 3.0' in text
    assert 'poisonadmin_stopped_messages{reason="failed_by_admin",state="FAIL"} 1.0' in text
    assert "poisonadmin_due 3.0" in text
    assert "poisonadmin_stuck 0.0" in text
    assert 'poisonadmin_jobs{kind="ingest",state="queued"} 1.0' in text


def happened(event: str = "delivered", message_id: int = 1, session: Any = None) -> None:
    """Write a row of a history."""
    (session or connection.cursor()).execute(
        "INSERT INTO history (message_id, from_state, to_state, event, attempt_number, actor)"
        " VALUES (%s, 'DLNG', 'DLVD', %s, 1, 'system')",
        [message_id, event],
    )


def count_to_now() -> None:
    """Add up until now is counted: the second that has begun is not yet, nor what another session may still write."""
    now = database_time()
    for _ in range(300):
        if (until := counted_until()) and until > now:
            return
        time.sleep(0.2)
        add_up()
    raise AssertionError(f"counted until {until} only, {now} was to be counted")


def test_what_happens_is_counted_once(transactional_db: None) -> None:
    make_destination(max_delivery_attempts=1)
    delivered, failed = enqueue(2)
    handed_in = database_time()
    claim()
    answer([delivered])
    Attempt.objects.filter(message_id=delivered).update(started_at=F("finished_at") - timedelta(seconds=0.3))
    answer([failed], "failed", error_class="IOError")
    Attempt.objects.update(destination_id=Destination.objects.get().id)
    settle()
    decisions.mark_fail([failed], principal=SYSTEM, reason="test")
    for _ in range(2):
        count_to_now()
        assert scraped(root="orders", event=Event.ENQUEUED, by_operation="false")["poisonadmin_events_total"] == 2
        assert scraped(root="orders", event=Event.MARKED_FAIL, state="FAIL")["poisonadmin_events_total"] == 1
        ended = scraped(destination="shop", outcome="failed", error_class="IOError")
        assert ended["poisonadmin_attempts_total"] == 1
        assert scraped(destination="shop", outcome="delivered")["poisonadmin_attempts_total"] == 1
        seconds = scraped(destination="shop", le="0.25") | scraped(destination="shop")
        assert scraped(destination="shop", le="0.25")["poisonadmin_attempt_seconds_bucket"] == 0
        assert scraped(destination="shop", le="0.5")["poisonadmin_attempt_seconds_bucket"] == 1
        assert seconds["poisonadmin_attempt_seconds_sum"] == pytest.approx(0.3)
        assert seconds["poisonadmin_attempt_seconds_count"] == 1
        assert scraped()["poisonadmin_counted_until_seconds"] > handed_in.timestamp()


def test_a_row_of_a_transaction_that_ends_late_is_counted_then(transactional_db: None, test_database_url: str) -> None:
    with psycopg.connect(test_database_url) as late:
        happened("expired", session=late)
        time.sleep(1.1)
        happened("approved", message_id=2)
        time.sleep(2.1)
        add_up()
        assert totals() == {}
        late.commit()
    count_to_now()
    assert sorted((labels[1], n) for (_, labels), n in totals().items()) == [("approved", 1), ("expired", 1)]


def test_a_label_has_no_more_values_than_a_page_of_graphs_can_show(transactional_db: None) -> None:
    MetricTotal.objects.bulk_create(
        MetricTotal(metric="events", labels=[f"root{n}", "enqueued", "TBDL", "false"], total=1)
        for n in range(MOST_VALUES)
    )
    enqueue(address="root7.eu")
    enqueue(2, address="one-too-many.eu")
    count_to_now()
    found = {labels[0]: n for (_, labels), n in totals().items() if labels[1] == Event.ENQUEUED}
    assert len(found) == MOST_VALUES + 1
    assert (found["root7"], found["root8"], found["other"]) == (2, 1, 2)


def test_without_a_database_metrics_say_so(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scraped()["poisonadmin_database_up"] == 1

    def away(*_: object) -> None:
        raise OperationalError

    monkeypatch.setattr(metrics, "counts", away)
    found = scraped()
    assert found["poisonadmin_database_up"] == 0
    assert "process_open_fds" in found
    monkeypatch.setattr(metrics, "_principal", away)
    with_a_token = Client(REMOTE_ADDR="10.0.0.7").get("/metrics", headers={"Authorization": "Bearer pa_x"})
    assert (with_a_token.status_code, b"poisonadmin_database_up 0.0" in with_a_token.content) == (200, True)
    assert b"process" not in with_a_token.content
    assert "poisonadmin_due" not in found


def test_requests_are_counted_by_their_route(db: None) -> None:
    before = scraped(route="metrics", method="GET", status="200").get("poisonadmin_http_requests_total", 0)
    Client().generic("NONSENSE", "/healthz")
    Client().get("/no/such/page")
    assert scraped(route="metrics", method="GET", status="200")["poisonadmin_http_requests_total"] == before + 1
    assert scraped(route="healthz", method="other", status="405")["poisonadmin_http_requests_total"] >= 1
    assert scraped(route="other", method="GET", status="404")["poisonadmin_http_requests_total"] >= 1
    assert scraped(route="metrics")["poisonadmin_http_request_seconds_count"] >= 2


@pytest.mark.parametrize(("given", "is_kept"), [("req-7:a/b+c=", True), ("x" * 65, False), ("a b", False), ("", False)])
def test_an_answer_has_the_id_of_its_request(db: None, given: str, is_kept: bool) -> None:
    answered = Client().get("/api/v1/messages/", headers={"X-Request-ID": given})
    assert (answered["X-Request-ID"] == given) is is_kept
    assert answered.json()["request_id"] == answered["X-Request-ID"]


def test_metrics_say_how_long_each_worker_has_been_silent(db: None) -> None:
    silent("spark-batch@a", 40)
    silent("spark-batch@b", 0)
    text = Client().get("/metrics").content.decode()
    assert 'poisonadmin_worker_silence_seconds{worker="spark-batch@a"} 40.0' in text
    assert 'poisonadmin_worker_silence_seconds{worker="spark-batch@b"} 0.' in text


def test_metrics_are_for_this_machine_or_for_who_may_read(
    viewer: Caller, outsider: Caller, django_user_model: Any
) -> None:
    def status(**headers: str) -> int:
        return Client(REMOTE_ADDR="10.0.0.7").get("/metrics", headers=headers).status_code

    assert status() == 403
    assert status(Authorization="Bearer pa_nonsense") == 403
    assert status(Authorization=f"Bearer {outsider.token}") == 403
    assert status(Authorization=f"Bearer {viewer.token}") == 200


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server"),
        *("Forwarded", "Via", "X-Real-IP", "x-forwarded-proto", "X-Original-Host", "X-Client-IP"),
    ],
)
def test_metrics_are_for_nobody_for_whom_a_proxy_on_this_machine_speaks(header: str, db: None) -> None:
    proxied = Client().get("/metrics", headers={header: "https"})
    assert (proxied.status_code, proxied["Content-Type"]) == (403, "application/problem+json")
    assert Client().get("/metrics", headers={"Accept": "text/plain", "X-Request-ID": "1"}).status_code == 200
