"""Each kind of report against messages made by hand, with figures worked out by hand."""

from datetime import UTC, datetime

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role, principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.reports.domain.asked import Period, asked_report
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.domain.kinds import PeriodBy
from poisonadmin.reports.queries.rows import rows_at_once
from tests.fixtures.decisions import mark_fail, restore
from tests.fixtures.delivery import make_destination
from tests.reports.made import DAY, HOUR, NOON, attempt, change, message, rows_of

pytestmark = pytest.mark.django_db


def test_failures_has_a_row_a_message_in_the_order_of_ids_with_the_last_error() -> None:
    first = message(headers={"X-Kind": "push", "odd": "\x01 %s"})
    second = message("orders.us", exception_class="ValueError", exception_message="no number")
    attempt(second, 1, "failed", error_class="Later", error_message="again", status_code=503)
    message(state="TBDL")
    columns = ["id", "address", "state", "reason", "error_class", "error_message", "status_code", "header.X-Kind"]
    assert rows_of("failures", columns=columns, filter={"state": ["NDLV"]}) == [
        (first, "orders.eu", "NDLV", "imported", "TimeoutError", "no answer in 30 s", None, "push"),
        (second, "orders.us", "NDLV", "imported", "Later", "again", 503, None),
    ]


@pytest.mark.parametrize(("by", "found"), [(PeriodBy.FAILED, [0, 1]), (PeriodBy.RECEIVED, [1, 2])])
def test_a_period_is_of_failures_or_of_arrivals(by: PeriodBy, found: list[int]) -> None:
    made = [message(at=NOON - 2 * DAY), message(at=NOON), message(at=NOON + HOUR)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET failed_at = %s WHERE id = %s", [NOON + HOUR, made[0]])
        cursor.execute("UPDATE message SET failed_at = %s WHERE id = %s", [NOON + 3 * DAY, made[2]])
    period = Period(NOON, NOON + DAY, by)
    assert [row[0] for row in rows_of("failures", columns=["id"], period=period)] == [made[place] for place in found]


def test_groups_by_day_are_in_the_time_zone_that_was_asked_for() -> None:
    for hour in (3, 22, 23):
        message(at=datetime(2026, 3, 2, hour, 30, tzinfo=UTC))
    assert rows_of("failures", group_by=["failed_day"], time_zone="Europe/Berlin") == [
        ("2026-03-02", 2),
        ("2026-03-03", 1),
    ]


def test_attempts_has_a_row_a_try() -> None:
    one = message(state="TBDL")
    attempt(one, 1, "failed", error_class="Boom")
    attempt(one, 2, "delivered", at=NOON + HOUR)
    columns = ["id", "attempt_number", "outcome", "seconds", "error_class", "finished_at"]
    assert rows_of("attempts", columns=columns) == [
        (one, 1, "failed", 1.5, "Boom", NOON),
        (one, 2, "delivered", 1.5, None, NOON + HOUR),
    ]
    assert rows_of("attempts", columns=["attempt_number"], period=Period(NOON + HOUR)) == [(2,)]


def decided() -> list[int]:
    made = [message(at=NOON) for _ in range(5)]
    for one in made:
        change(one, "imported", "NDLV", at=NOON, before=None)
    change(made[0], "approved", "TBDL", at=NOON + HOUR, note="try again", operation_id=7)
    change(made[0], "claimed", "DLNG", at=NOON + HOUR, before="TBDL")
    change(made[0], "delivered", "DLVD", at=NOON + 2 * HOUR, before="DLNG")
    change(made[1], "approved", "TBDL", at=NOON + 2 * HOUR)
    change(made[1], "failed", "NDLV", at=NOON + 3 * HOUR, before="DLNG")
    change(made[1], "approved", "TBDL", at=NOON + 7 * HOUR)
    change(made[2], "marked_fail", "FAIL", at=NOON + 6 * HOUR)
    change(made[3], "assigned", "NDLV", at=NOON + HOUR)
    return made


def test_decisions_come_with_what_they_led_to() -> None:
    made = decided()
    columns = ["id", "decision", "decided_by", "decision_reason", "operation_id", "result", "result_at"]
    rows = rows_of("decisions", columns=[*columns, "seconds_to_decision"])
    assert rows == [
        (made[0], "approved", "alice", "try again", 7, "delivered", NOON + 2 * HOUR, 3600.0),
        (made[1], "approved", "alice", None, None, "not_delivered", NOON + 3 * HOUR, 7200.0),
        (made[1], "approved", "alice", None, None, "open", None, 4 * 3600.0),
        (made[2], "marked_fail", "alice", None, None, "given_up", None, 6 * 3600.0),
    ]
    late = Period(NOON + 5 * HOUR)
    assert rows_of("decisions", columns=[*columns, "seconds_to_decision"], period=late) == rows[2:]


def test_the_time_to_a_decision_has_mean_and_median() -> None:
    decided()
    # 1, 2, 4 and 6 hours: 13 hours in all, 3 in the middle.
    assert rows_of("time_to_decision") == [("orders.eu", 4, 13 * 3600 / 4, 3 * 3600.0)]
    assert rows_of("time_to_decision", group_by=["decision"], columns=["decision", "decisions"]) == [
        ("approved", 3),
        ("marked_fail", 1),
    ]


def test_the_undecided_are_counted_by_their_age() -> None:
    now = datetime.now(UTC)
    for hours in (0.2, 2, 2, 50, 1000):
        message(at=now - hours * HOUR)
    message("orders.us", at=now - 30 * HOUR)
    message(at=now, state="FAIL")
    assert rows_of("ageing") == [
        ("orders.eu", 1, 2, 0, 1, 0, 0, 1, 5, 1000),
        ("orders.us", 0, 0, 0, 1, 0, 0, 0, 1, 30),
    ]


@pytest.mark.conformance("R19")
def test_an_age_counts_from_the_failure_whatever_was_decided_since() -> None:
    made = message(at=datetime.now(UTC) - 50 * HOUR)
    mark_fail([made], principal=SYSTEM, reason="r")
    restore([made], principal=SYSTEM, reason="r")
    assert rows_of("ageing", columns=["address", "oldest_hours"]) == [("orders.eu", 50)]


def test_redelivery_says_how_often_which_attempt_delivered_under_which_policy() -> None:
    make_destination()
    one, two, other = message(state="TBDL"), message(state="TBDL"), message("parked.eu", state="TBDL")
    for made, number, outcome in (
        (one, 1, "failed"), (one, 2, "delivered"), (two, 1, "delivered"), (other, 1, "crashed"),
    ):  # fmt: skip
        attempt(made, number, outcome)
    assert rows_of("redelivery") == [
        ("#", 1, 1, 0, 1, 0.0),
        ("orders.#", 1, 2, 1, 1, 50.0),
        ("orders.#", 2, 1, 1, 0, 100.0),
    ]


def test_the_blacklist_comes_with_the_poison_list() -> None:
    one = message()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET reason = 'blacklisted', crash_count = 3 WHERE id = %s", [one])
    report(Report(source="orders.us", bookmark="7|1|", why="it crashes"), principal=SYSTEM)
    columns = ["what", "id", "address", "bookmark", "why", "crashes"]
    assert rows_of("blacklist", columns=columns) == [
        ("listed", None, "orders.us", "7|1|", "it crashes", 0),
        ("blacklisted", one, "orders.eu", None, "TimeoutError: no answer in … s", 3),
    ]
    only = principal("eve", Role.OPERATOR, ["orders.us"])
    assert [row[0] for row in rows_of("blacklist", principal=only)] == ["listed"]
    assert [row[0] for row in rows_of("blacklist", filter={"address": ["orders.eu"]})] == ["blacklisted"]


def test_who_sees_some_addresses_gets_their_rows_and_counts_alone() -> None:
    message("orders.eu")
    seen = message("orders.us")
    only = principal("eve", Role.OPERATOR, ["orders.us"])
    for kind in ("attempts", "ageing", "decisions", "failures", "redelivery", "time_to_decision"):
        assert "orders.eu" not in str(rows_of(kind, principal=only)), kind
    assert rows_of("failures", columns=["id"], principal=only) == [(seen,)]
    assert rows_of("failures", group_by=["address"], principal=only) == [("orders.us", 1)]


def test_rows_take_the_permission_to_export_and_payloads_that_to_read_them() -> None:
    one = message()
    nobody = Principal("eve", Role.VIEWER, frozenset({Permission.READ}))
    some = Principal("eve", Role.VIEWER, frozenset({Permission.READ, Permission.EXPORT}))
    with pytest.raises(NotAllowed):
        rows_of("failures", principal=nobody)
    with pytest.raises(NotAllowed):
        rows_of("failures", columns=["payload"], principal=some)
    assert rows_of("failures", columns=["id", "payload"]) == [(one, b"body")]


def test_a_business_key_and_a_hostile_name_are_columns() -> None:
    one = message(headers={'it\'s 100%{} "odd" \\': "=1+1"})
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO business_key (message_id, name, value) VALUES (%s, 'customer''s', '77')", [one])
    columns = ['header.it\'s 100%{} "odd" \\', "key.customer's", "key.nothing"]
    assert rows_of("failures", columns=columns) == [("=1+1", "77", None)]


def test_more_rows_than_wanted_are_the_newest() -> None:
    made = [message() for _ in range(5)]
    found = rows_at_once(asked_report("failures", columns=["id"]), principal=SYSTEM, limit=2)
    assert (found.rows, found.is_whole) == ([(made[4],), (made[3],)], False)


@pytest.mark.parametrize(
    ("kind", "wishes", "field"),
    [
        ("nothing", {}, "kind"),
        ("failures", {"columns": ["nothing"]}, "columns"),
        ("failures", {"columns": ["id", "id"]}, "columns"),
        ("failures", {"columns": ["header."]}, "columns"),
        ("failures", {"group_by": ["payload"]}, "group_by"),
        ("failures", {"time_zone": "Europe/Nowhere"}, "time_zone"),
        ("failures", {"time_zone": "../etc/passwd"}, "time_zone"),
        ("failures", {"time_zone": "localtime"}, "time_zone"),
        ("failures", {"format": "pdf"}, "format"),
        ("failures", {"period": Period(NOON, NOON)}, "period"),
        ("redelivery", {"columns": ["policy"], "group_by": ["outcome"]}, "columns"),
        ("attempts", {"columns": ["policy"]}, "columns"),
        ("blacklist", {"columns": ["key.customer"]}, "columns"),
    ],
)
def test_what_is_no_report_is_refused_by_its_field(kind: str, wishes: dict, field: str) -> None:
    with pytest.raises(InvalidReport) as refused:
        asked_report(kind, **wishes)
    assert refused.value.field == field


def test_an_unknown_parameter_of_the_filter_is_refused() -> None:
    with pytest.raises(InvalidFilter):
        rows_of("failures", filter={"adress": ["orders.eu"]})
