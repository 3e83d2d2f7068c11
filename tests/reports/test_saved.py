"""Reports under a name: whose they are, what their schedules ask for, and who is told."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core import mail
from django.db.models.functions import Now

from poisonadmin.alerts.channels.contract import PostAnswer
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.alerts.domain.notices import signature
from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role, principal
from poisonadmin.core.domain.errors import AlreadyExists, NotFound
from poisonadmin.reports.commands import saved
from poisonadmin.reports.commands.saved import (
    last_days,
    note_ready,
    remove_saved_report,
    run_saved_due,
    run_saved_report,
    save_report,
)
from poisonadmin.reports.domain.asked import asked_report, from_json
from poisonadmin.reports.domain.columns import InvalidReport
from poisonadmin.reports.queries.reports import get_report, get_saved_report, list_saved_reports
from poisonadmin.store.models.access import Access, Audit
from poisonadmin.store.models.alert import AlertDelivery
from poisonadmin.store.models.report import SavedReport
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import make_user
from tests.reports.made import message

pytestmark = pytest.mark.django_db
WEEKLY = asked_report("failures", format="csv", time_zone="Europe/Berlin")


def account(name: str, role: Role = Role.ADMIN, patterns: tuple[str, ...] = ()) -> Principal:
    user = make_user(name, role, list(patterns))
    return replace(principal(name, role, patterns), account=f"user {user.id}", user=f"user {user.id}")


def due(saved_id: int) -> None:
    SavedReport.objects.filter(id=saved_id).update(next_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_the_last_days_are_whole_days_of_the_clock_in_the_time_zone() -> None:
    # On 29 March 2026 a day of Berlin has 23 hours.
    found = last_days(7, datetime(2026, 3, 30, 5, tzinfo=UTC), WEEKLY).period
    assert found.since == datetime(2026, 3, 22, 23, tzinfo=UTC)
    assert found.until == datetime(2026, 3, 29, 22, tzinfo=UTC)


def test_a_schedule_asks_for_a_report_once_with_the_rights_of_its_owner() -> None:
    owner = account("eve", Role.OPERATOR, ("orders.#",))
    saved_id, secret = save_report("weekly", WEEKLY, days=7, schedule="0 7 * * 1", principal=owner)
    assert secret is None
    assert run_saved_due() == []
    due(saved_id)
    (report_id,) = run_saved_due()
    assert run_saved_due() == []
    row = LongRun.objects.get(id=report_id)
    assert (row.requested_by, row.patterns, row.params["saved_id"]) == ("eve", [["orders.#"]], saved_id)
    period = from_json(row.params["asked"]).period
    assert period.until is not None
    assert period.since is not None
    assert 6 <= (period.until - period.since).days <= 7
    saved = SavedReport.objects.get(id=saved_id)
    assert saved.next_at is not None
    assert saved.next_at > datetime.now(UTC)
    assert Audit.objects.filter(action="report.requested", actor="eve").count() == 1


def test_a_schedule_waits_for_its_last_report() -> None:
    saved_id, _ = save_report("each minute", WEEKLY, days=7, schedule="* * * * *", principal=account("eve", Role.ADMIN))
    due(saved_id)
    (first,) = run_saved_due()
    due(saved_id)
    assert run_saved_due() == []
    row = SavedReport.objects.get(id=saved_id)
    assert row.last_error == "Its last run is still being made, so this one was left out."
    LongRun.objects.filter(id=first).update(state="succeeded", ended_at=Now())
    due(saved_id)
    assert len(run_saved_due()) == 1


@pytest.mark.django_db(transaction=True)
def test_an_error_of_one_schedule_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = account("eve")
    first, second = (save_report(name, WEEKLY, schedule="0 7 * * 1", principal=owner)[0] for name in ("a", "b"))
    due(first)
    due(second)
    request = saved._request

    def fails(row: SavedReport, now: datetime) -> int:
        if row.id == first:
            raise ValueError("no room")
        return request(row, now)

    monkeypatch.setattr(saved, "_request", fails)
    with pytest.raises(ValueError, match="no room"):
        run_saved_due()
    assert LongRun.objects.get(kind="report").params["saved_id"] == second
    row = SavedReport.objects.get(id=first)
    assert row.last_error == "ValueError: no room"
    assert row.next_at is not None
    assert row.next_at > datetime.now(UTC)
    assert run_saved_due() == []


def test_a_schedule_of_who_has_lost_the_right_says_so_and_asks_for_nothing() -> None:
    owner = account("eve")
    saved_id, _ = save_report("weekly", WEEKLY, schedule="0 7 * * 1", principal=owner)
    Access.objects.filter(user__username="eve").delete()
    due(saved_id)
    assert run_saved_due() == []
    assert "not in force" in str(SavedReport.objects.get(id=saved_id).last_error)
    assert LongRun.objects.count() == 0
    assert run_saved_due() == []


def test_others_see_what_is_shared_where_they_see_every_address() -> None:
    owner, other, limited = account("eve"), account("bob", Role.OPERATOR), account("al", Role.ADMIN, ("orders.#",))
    private, _ = save_report("mine", WEEKLY, principal=owner)
    shared, _ = save_report("ours", WEEKLY, is_shared=True, principal=owner)
    assert [row.name for row in list_saved_reports(principal=owner)] == ["mine", "ours"]
    assert [row.name for row in list_saved_reports(principal=other)] == ["ours"]
    assert list_saved_reports(principal=limited) == []
    for saved_id, who in ((private, other), (private, limited), (shared, limited)):
        with pytest.raises(NotFound):
            get_saved_report(saved_id, principal=who)
    with pytest.raises(NotAllowed):
        remove_saved_report(shared, principal=other)
    report_id = run_saved_report(shared, principal=other)
    assert LongRun.objects.get(id=report_id).requested_by == "bob"
    with pytest.raises(NotFound):
        get_report(report_id, principal=owner)
    due(shared)
    SavedReport.objects.filter(id=shared).update(schedule="0 7 * * 1")
    (made,) = run_saved_due()
    assert get_report(made, principal=other).saved_id == shared
    with pytest.raises(NotFound):
        get_report(made, principal=limited)
    remove_saved_report(shared, principal=owner)
    assert get_report(made, principal=owner).saved_id is None
    with pytest.raises(NotFound):
        get_report(made, principal=other)


def test_a_saved_report_is_of_the_person_by_whatever_session_or_token() -> None:
    user = make_user("rita", Role.OPERATOR, ["orders.#"])
    session = principal_of_user(user)
    found = authenticate(create_token(user, "ci", scopes=["read", "export", "read_payload"], by="rita").text)
    assert session is not None
    assert found is not None
    saved_id, _ = save_report("weekly", WEEKLY, principal=found[1])
    assert [(row.name, row.owner) for row in list_saved_reports(principal=session)] == [("weekly", "rita")]
    assert save_report("weekly", WEEKLY, principal=session)[0] == saved_id
    remove_saved_report(saved_id, principal=found[1])


def test_to_share_and_to_tell_others_takes_more_than_to_export() -> None:
    operator = account("eve", Role.OPERATOR)
    viewer = replace(account("vic", Role.VIEWER), permissions=frozenset({Permission.READ, Permission.EXPORT}))
    with pytest.raises(NotAllowed):
        save_report("x", WEEKLY, is_shared=True, principal=viewer)
    hook = {"channel": "webhook", "to": ["https://hooks.example.org/in"], "schedule": "0 7 * * 1"}
    with pytest.raises(NotAllowed):
        save_report("x", WEEKLY, principal=operator, **hook)
    with pytest.raises(InvalidReport, match="schedule"):
        save_report("x", WEEKLY, principal=SYSTEM, **(hook | {"schedule": None}))
    with pytest.raises(InvalidReport, match="to"):
        save_report("x", WEEKLY, principal=SYSTEM, **(hook | {"to": ["gopher://x"]}))


def test_a_name_is_taken_once_an_owner() -> None:
    save_report("weekly", WEEKLY, principal=account("eve"), expected_version=0)
    save_report("weekly", WEEKLY, principal=account("bob"), expected_version=0)
    with pytest.raises(AlreadyExists):
        save_report("weekly", WEEKLY, principal=replace(SYSTEM, name="eve"), expected_version=0)


def ready(saved_id: int) -> int:
    """Return the report of a run of the schedule, ready."""
    due(saved_id)
    (report_id,) = run_saved_due()
    LongRun.objects.filter(id=report_id).update(
        state="succeeded",
        result={"rows": 1234, "bytes": 10, "sha256": "ab" * 32, "file_until": "2099-03-02T00:00:00+00:00"},
        ended_at=datetime(2026, 3, 2, tzinfo=UTC),
    )
    note_ready(report_id)
    return report_id


@pytest.mark.django_db(transaction=True)
def test_a_webhook_gets_a_signed_link_and_no_rows_until_it_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "PUBLIC_URL", "https://poison.example.org")
    message(exception_message="a secret text")
    hook = ["https://hooks.example.org/in"]
    saved_id, secret = save_report("weekly", WEEKLY, schedule="0 7 * * 1", channel="webhook", to=hook, principal=SYSTEM)
    assert secret is not None
    report_id = ready(saved_id)
    posts: list[tuple[str, Mapping[str, str], bytes]] = []

    def post(url: str, headers: Mapping[str, str], body: bytes) -> PostAnswer:
        posts.append((url, headers, body))
        return PostAnswer(503 if len(posts) == 1 else 200, "")

    assert send_due(post) == 1
    assert AlertDelivery.objects.get().state == "waiting"
    assert send_due(post) == 0
    AlertDelivery.objects.update(due_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert send_due(post) == 1
    assert send_due(post) == 0
    assert AlertDelivery.objects.get().state == "sent"
    (url, headers, body), (_, again, same) = posts
    assert (url, body, headers["webhook-id"]) == (hook[0], same, again["webhook-id"])
    expected = signature(
        [secret], webhook_id=headers["webhook-id"], timestamp=int(headers["webhook-timestamp"]), body=body
    )
    assert headers["webhook-signature"] == expected
    document: dict[str, Any] = json.loads(body)
    (said,) = document["data"]["alerts"]
    assert document["type"] == "report.ready"
    assert said["url"] == f"https://poison.example.org/reports/{report_id}/"
    assert said["facts"]["sha256"] == "ab" * 32
    assert b"secret text" not in body


@pytest.mark.django_db(transaction=True)
def test_a_mail_says_the_rows_and_the_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "EMAIL_HOST", "mail.example.org")
    saved_id, secret = save_report(
        "weekly", WEEKLY, schedule="0 7 * * 1", channel="email", to=["a@example.org"], principal=SYSTEM
    )
    assert secret is None
    report_id = ready(saved_id)
    assert send_due(lambda *_: PostAnswer(None, "")) == 1
    (sent,) = mail.outbox
    assert sent.to == ["a@example.org"]
    assert "Report weekly: 1,234 rows" in sent.subject
    assert f"/reports/{report_id}/" in sent.body
    assert "ab" * 32 in sent.body
    assert "Sent by the saved report weekly." in sent.body


def test_nobody_is_told_of_a_report_that_a_person_asked_for() -> None:
    saved_id, _ = save_report("weekly", WEEKLY, principal=SYSTEM)
    note_ready(run_saved_report(saved_id, principal=SYSTEM))
    assert AlertDelivery.objects.count() == 0
    assert LongRun.objects.get(kind="report").params["saved_id"] is None
