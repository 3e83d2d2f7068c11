"""The pages of reports: the form and its preview, the list, one report, the summary."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from poisonadmin.reports.pages.plots import stacked
from poisonadmin.store.models.report import SavedReport
from poisonadmin.store.models.run import LongRun
from tests.reports.made import message

pytestmark = pytest.mark.django_db
Browser = Callable[[str], Client]
FORM = {"kind": "failures", "format": "csv", "time_zone": "UTC", "by": "failed"}


def test_the_form_shows_the_first_rows_of_what_it_says(browser_of: Browser) -> None:
    shown = message(exception_message="<script>alert(1)</script>")
    message("orders.us")
    sent = FORM | {"filter": "address=orders.eu", "columns": "id, error_message", "do": "preview"}
    answer = browser_of("operator").post(reverse("reports-new"), sent)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert answer.context["preview"]["rows"] == [[str(shown), "<script>alert(1)</script>"]]
    assert "<script>alert(1)" not in text
    assert LongRun.objects.count() == 0


def test_a_report_of_the_last_days_has_them_as_its_period(browser_of: Browser) -> None:
    client = browser_of("operator")
    assert client.post(reverse("reports-new"), FORM | {"do": "make", "days": "7"}).status_code == 302
    period = LongRun.objects.get().params["asked"]["period"]
    since, until = (datetime.fromisoformat(period[end]) for end in ("from", "to"))
    assert (until - since).days in (6, 7), "seven midnights, in a week with a change of the clock too"
    assert until <= datetime.now(UTC) < until + timedelta(days=1)
    twice = FORM | {"do": "make", "days": "7", "first": "2026-03-02"}
    assert "days" in client.post(reverse("reports-new"), twice).context["form"].errors


def test_what_cannot_be_mailed_is_said_while_one_types(browser_of: Browser) -> None:
    client = browser_of("operator")
    sent = FORM | {"channel": "email", "to": "anna@example.org"}
    previewed = client.post(reverse("reports-new"), sent | {"do": "preview"})
    assert previewed.context["form"].errors == {"schedule": ["Is required to have others told."]}
    assert client.post(reverse("reports-new"), sent | {"do": "make"}).status_code == 302, "it is not what is made"


def test_a_pivot_is_previewed_kept_and_asked_for_again(browser_of: Browser) -> None:
    message(exception_class="<script>")
    client = browser_of("operator")
    sent = FORM | {"group_by": "address", "pivot": "error_class"}
    answer = client.post(reverse("reports-new"), sent | {"do": "preview"})
    preview = answer.context["preview"]
    assert (preview["columns"], preview["rows"]) == (("address", "<script>", "count"), [["orders.eu", 1, 1]])
    assert "<script>" not in answer.content.decode().partition("t-preview")[2].partition("</table>")[0]
    made = client.post(reverse("reports-new"), sent | {"do": "make"})["Location"]
    assert "error_class, each with the figure count" in client.get(made).content.decode()
    row = LongRun.objects.get()
    assert (row.params["asked"]["pivot"], row.params["asked"]["figure"]) == ("error_class", "count")
    again = client.get(reverse("reports-new"), {"like": row.id}).context["form"].initial
    assert (again["group_by"], again["pivot"]) == (["address"], "error_class")
    assert client.post(reverse("reports-new"), sent | {"do": "save", "name": "by error"}).status_code == 302
    assert SavedReport.objects.get().asked["pivot"] == "error_class"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"filter": "adress=x"}, "filter"),
        ({"filter": "stat:NDLV"}, "filter"),
        ({"columns": "nothing"}, "columns"),
        ({"group_by": "payload"}, "group_by"),
        ({"pivot": "state"}, "group_by"),
        ({"pivot": "nothing", "group_by": "address"}, "pivot"),
        ({"pivot": "state", "group_by": "address", "figure": "tries"}, "figure"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"first": "2026-02-30"}, "first"),
        ({"first": "2026-02-03", "last": "2026-02-01"}, "first"),
        ({"do": "save", "schedule": "every day", "name": "x"}, "schedule"),
        ({"do": "save"}, "name"),
    ],
)
def test_a_mistake_stands_at_its_field(browser_of: Browser, wrong: dict[str, str], field: str) -> None:
    answer = browser_of("admin").post(reverse("reports-new"), FORM | {"do": "make"} | wrong)
    assert answer.status_code == 422
    assert [one.name for one in answer.context["form"].wrong()] == [field]


def test_a_report_is_asked_for_followed_and_cancelled(browser_of: Browser) -> None:
    client = browser_of("operator")
    sent = FORM | {"first": "2026-03-02", "last": "2026-03-02", "time_zone": "Europe/Berlin", "do": "make"}
    answer = client.post(reverse("reports-new"), sent)
    row = LongRun.objects.get()
    assert answer["Location"] == reverse("reports-one", args=[row.id])
    assert row.params["asked"]["period"] == {
        "from": "2026-03-02T00:00:00+01:00",
        "to": "2026-03-03T00:00:00+01:00",
        "by": "failed",
    }
    assert "Cancel the report" in client.get(answer["Location"]).content.decode()
    assert f"#{row.id}" in client.get(reverse("reports")).content.decode()
    again = client.get(reverse("reports-new"), {"like": row.id}).context["form"].initial
    assert (again["first"].isoformat(), again["last"].isoformat()) == ("2026-03-02", "2026-03-02")
    assert client.post(reverse("reports-cancel", args=[row.id])).status_code == 302
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert client.get(reverse("reports-download", args=[row.id])).status_code == 409


def test_a_report_is_kept_under_a_name_and_made_again(browser_of: Browser) -> None:
    client = browser_of("operator")
    sent = FORM | {"do": "save", "name": "weekly", "days": "7", "schedule": "0 7 * * 1", "is_shared": "on"}
    assert client.post(reverse("reports-new"), sent).status_code == 302
    saved = SavedReport.objects.get()
    assert (saved.days, saved.is_shared, saved.channel) == (7, True, None)
    assert "weekly" in client.get(reverse("reports")).content.decode()
    assert client.get(reverse("reports-new"), {"saved": saved.id}).context["form"].initial["days"] == 7
    assert client.post(reverse("reports-run", args=[saved.id])).status_code == 302
    assert LongRun.objects.count() == 1
    assert client.post(reverse("reports-remove", args=[saved.id])).status_code == 302
    assert SavedReport.objects.count() == 0


def failures(group_id: int, address: str, n: int, *, days_ago: int) -> None:
    hour = (datetime.now(UTC) - timedelta(days=days_ago)).replace(hour=12, minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO group_hour (group_id, hour, address_id, failures)"
            " VALUES (%s, %s, (SELECT id FROM address WHERE name = %s), %s)"
            " ON CONFLICT (group_id, hour, address_id) DO UPDATE SET failures = EXCLUDED.failures",
            [group_id, hour, address, n],
        )


def test_the_summary_has_the_figures_of_the_last_whole_days_within_the_scope(browser_of: Browser) -> None:
    message("orders.eu")
    message("elsewhere.eu")
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM failure_group")
        (group_id,) = cursor.fetchone()
    failures(group_id, "orders.eu", 7, days_ago=1)
    failures(group_id, "orders.eu", 5, days_ago=2)
    failures(group_id, "elsewhere.eu", 3, days_ago=1)
    failures(group_id, "orders.eu", 100, days_ago=9)
    page = browser_of("operator").get(reverse("reports-summary"), {"days": "7"})
    assert page.context["addresses"] == [("orders.eu", 12), ("elsewhere.eu", 3)]
    assert [(one.id, one.failures) for one in page.context["groups"]] == [(group_id, 15)]
    assert len(page.context["failures_plot"].labels) == 7
    assert [row[0] for row in page.context["ageing"].rows] == ["elsewhere.eu", "orders.eu"]
    assert "15 failures by day and address" in page.content.decode()
    only = browser_of("outsider").get(reverse("reports-summary"))
    assert only.context["addresses"] == [("elsewhere.eu", 3)]
    assert "orders.eu" not in only.content.decode()


def test_bars_fill_the_plot_and_never_leave_it() -> None:
    plot = stacked(["a", "b"], {"x": [10, 0], "y": [30, 20]}, label="some")
    assert [bar.title for bar in plot.bars] == ["a, x: 10", "a, y: 30", "b, y: 20"]
    assert all(bar.y >= 8 and bar.y + bar.height <= plot.height - 20 for bar in plot.bars)
    assert plot.bars[0].height * 3 == pytest.approx(plot.bars[1].height, abs=0.3)
    assert stacked([], {}, label="none").bars == ()
