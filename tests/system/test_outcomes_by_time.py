"""The chart's buckets: counted once, and not again when they can no longer change."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.system.queries import overview as module
from poisonadmin.system.queries.overview import SPANS, outcomes_by_time

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    module._past.clear()


def hand_in_dead_letter(address: str = "orders.eu") -> None:
    accept(
        parse_envelope({"address": address, "payload": "x", "dead_letter": {"reason": "r"}}),
        principal=SYSTEM,
        received_by="test",
    )


def happened(minutes_ago: int) -> None:
    """Write a delivery that lies in the past."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO history (message_id, from_state, to_state, event, attempt_number, actor, at)"
            " VALUES (1, 'DLNG', 'DLVD', 'delivered', 1, 'system', now() - %s)",
            [timedelta(minutes=minutes_ago)],
        )


@pytest.mark.parametrize("span", SPANS)
def test_every_span_has_a_bucket_for_each_step_up_to_now(span: int) -> None:
    hand_in_dead_letter()
    happened(0)
    buckets = outcomes_by_time(SYSTEM, span=span)
    assert len(buckets) == span // SPANS[span] + 1
    assert buckets[-1].at - buckets[0].at == timedelta(seconds=span)
    assert (sum(b.undecided for b in buckets), sum(b.delivered for b in buckets)) == (1, 1)


def test_what_is_settled_is_read_once_and_what_is_new_is_added() -> None:
    happened(30)
    assert sum(bucket.delivered for bucket in outcomes_by_time(SYSTEM, span=3600)) == 1
    happened(0)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        buckets = outcomes_by_time(SYSTEM, span=3600)
    assert sum(bucket.delivered for bucket in buckets) == 2
    (since,) = [query["sql"].split("h.at >= '")[1][:19] for query in asked if "h.at >= '" in query["sql"]]
    assert since > f"{buckets[-1].at - timedelta(minutes=5):%Y-%m-%d %H:%M:%S}"


def test_a_limited_reader_counts_his_own_addresses_only() -> None:
    hand_in_dead_letter("orders.eu")
    hand_in_dead_letter("invoices")
    limited = principal("otto", Role.VIEWER, ["orders.#"])
    assert sum(bucket.undecided for bucket in outcomes_by_time(limited, span=3600)) == 1
    assert sum(bucket.undecided for bucket in outcomes_by_time(SYSTEM, span=3600)) == 2


def test_another_span_is_refused() -> None:
    with pytest.raises(InvalidFilter):
        outcomes_by_time(SYSTEM, span=17)
