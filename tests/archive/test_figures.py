"""Figures of what is archived and what is live add up to what there was; months outlive the counts by hour."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from poisonadmin.archive.commands.figures import forget_figures, roll_up_failures
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.groups.commands.failure_groups import Seen, ensure
from poisonadmin.reports.domain.asked import AskedReport, Period, asked_report
from poisonadmin.reports.queries.figures import failures_by_month, with_archived
from poisonadmin.reports.queries.rows import rows_at_once
from tests.archive.fixtures import archive_with, in_process, place  # noqa: F401  (fixtures)
from tests.archive.in_process import InProcessStore
from tests.fixtures.api import take
from tests.fixtures.pages import html_of
from tests.reports.made import DAY, HOUR, NOON, attempt, change, message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process")]
PERIOD = Period(datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 5, tzinfo=UTC))


def of(kind: str) -> AskedReport:
    """Return a report of three days."""
    return asked_report(kind, period=PERIOD)


def figures(kind: str) -> list[Row]:
    """Return what the summary shows of a kind."""
    asked = of(kind)
    return with_archived(asked, rows_at_once(asked, principal=SYSTEM).rows, principal=SYSTEM, patterns=[])


def archive() -> None:
    """Have the archive run."""
    request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(settings.ARCHIVE))


def decided(address: str, hours: int, *, day: int = 0, state: str = "FAIL") -> int:
    """Store a message that waited so many hours for its decision, after two tries."""
    at = NOON + day * DAY
    made = message(address, at=at, state=state)
    change(made, "failed", "NDLV", at=at, before="DLNG")
    change(made, "marked_fail", "FAIL", at=at + hours * HOUR)
    attempt(made, 1, "failed", at=at)
    attempt(made, 2, "delivered" if hours % 2 else "crashed", at=at)
    return made


def test_figures_are_the_same_before_and_behind_the_archive() -> None:
    ids = [decided("orders.eu", 1), decided("orders.eu", 4), decided("orders.us", 7, day=1)]
    ids.append(decided("old.x", 2, day=-9))
    kept = decided("orders.eu", 9, state="DLVD")
    before = {kind: figures(kind) for kind in ("time_to_decision", "redelivery")}
    assert [row[:3] for row in before["time_to_decision"]] == [("orders.eu", 3, 16800.0), ("orders.us", 1, 25200.0)]
    assert before["redelivery"] == [("#", 1, 4, 0, 4, 0.0), ("#", 2, 4, 3, 1, 75.0)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET state_at = now() WHERE id = %s", [kept])
        cursor.execute("UPDATE message SET state_at = '2025-03-03T12:00Z' WHERE id <> %s", [kept])
    archive()
    assert fetch_values("SELECT id FROM archived_message ORDER BY id") == ids
    assert [row[:3] for row in figures("time_to_decision")] == [row[:3] for row in before["time_to_decision"]]
    assert [row[3] for row in figures("time_to_decision")] == [None, None]
    assert figures("redelivery") == before["redelivery"]
    restore_from_archive(ids[0], reason="look", principal=SYSTEM)
    assert [row[:3] for row in figures("time_to_decision")] == [row[:3] for row in before["time_to_decision"]]
    assert figures("redelivery") == before["redelivery"]
    for message_id in ids[1:]:
        restore_from_archive(message_id, reason="look", principal=SYSTEM)
    assert fetch_rows("SELECT * FROM day_figure WHERE n <> 0") == []
    assert figures("time_to_decision") == before["time_to_decision"]


def failed(address: str, hour: datetime, failures: int) -> None:
    """Store failures of an hour."""
    message(address)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO group_hour (group_id, hour, address_id, failures)
               SELECT (SELECT min(id) FROM failure_group), %s, id, %s FROM address WHERE name = %s""",
            [hour, failures, address],
        )


def test_failures_of_months_outlive_the_counts_by_hour() -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM group_hour")
    failed("orders.eu", today - timedelta(days=1, hours=-3), 5)
    failed("orders.eu", today - timedelta(days=1, hours=-4), 2)
    failed("orders.us", today + timedelta(minutes=1), 9)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM group_hour WHERE hour > %s AND failures = 1", [today - timedelta(days=30)])
    for _ in range(2):
        roll_up_failures()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM group_hour")
    roll_up_failures()
    period = Period(today - timedelta(days=92), today)
    months, found = failures_by_month(period, principal=SYSTEM, patterns=["orders.#"])
    assert len(months) in (4, 5)
    assert {address: sum(counts) for address, counts in found.items()} == {"orders.eu": 7}
    with connection.cursor() as cursor:
        cursor.execute("UPDATE day_figure SET day = day - interval '26 months'")
    forget_figures()
    assert fetch_values("SELECT count(*) FROM day_figure") == [0]


def test_months_know_what_is_not_added_up_yet_and_what_came_late() -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    take("orders.late")
    address = fetch_values("SELECT id FROM address WHERE name = 'orders.late'")[0]
    period = Period(today - timedelta(days=92), today)

    def months() -> int:
        _, found = failures_by_month(period, principal=SYSTEM, patterns=["orders.late"])
        return sum(sum(counts) for counts in found.values())

    for days_ago, total in ((1, 3), (60, 6), (60, 9)):
        at = today - timedelta(days=days_ago)
        with connection.cursor() as cursor:
            ensure(cursor, [Seen("f" * 16, "Late: no", "Late", 1, address, at, at, count=3)])
        assert months() == total
    roll_up_failures()
    assert months() == 9


def test_the_summary_shows_months(browser_of: Callable[[str], Client]) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    failed("orders.eu", yesterday.replace(minute=0, second=0, microsecond=0), 41)
    roll_up_failures()
    viewer: Client = browser_of("operator")
    page = " ".join(html_of(viewer.get("/reports/summary/?days=366")).split())
    assert "Failures by month and address" in page
    assert "orders.eu" in page
    assert "Choose fewer days" in page
    assert "orders.eu" not in html_of(browser_of("outsider").get("/reports/summary/?days=366"))
