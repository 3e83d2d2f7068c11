"""Reports in a real browser: asked for with a preview, followed to its file, and the summary on screen and on paper."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now
from playwright.sync_api import expect

from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.reports.commands import files
from poisonadmin.store.models.report import SavedReport
from poisonadmin.store.models.run import LongRun
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.browser.test_night import Clicks
from tests.reports.made import message

pytestmark = pytest.mark.django_db(transaction=True)


def failures() -> None:
    """Make failures of three weeks on seven addresses."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM failure_group LIMIT 1")
        (group_id,) = cursor.fetchone()
        cursor.execute("SELECT id FROM address ORDER BY id")
        addresses = [row[0] for row in cursor.fetchall()]
        for day in range(28):
            hour = (datetime.now(UTC) - timedelta(days=day)).replace(hour=12, minute=0, second=0, microsecond=0)
            for place, address_id in enumerate(addresses):
                cursor.execute(
                    "INSERT INTO group_hour (group_id, hour, address_id, failures) VALUES (%s, %s, %s, %s)"
                    " ON CONFLICT DO NOTHING",
                    [group_id, hour, address_id, (day * 7 + place * 13) % 40 + 1],
                )


def test_a_report_is_previewed_made_and_downloaded(visit: Visit, tmp_path: Path) -> None:
    message("orders.eu")
    page = visit.open("/reports/")
    expect(page.get_by_role("heading", name="No reports")).to_be_visible()
    page.get_by_role("link", name="New report").click()
    page.get_by_label("Filter").fill("address:orders.#")
    page.get_by_label("Format").select_option("csv")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Rows of the preview")).to_contain_text("orders.eu")
    assert violations(page) == []
    page.get_by_role("button", name="Make the report").click()
    page.wait_for_url("**/reports/*/")
    expect(page.locator("#report")).to_contain_text("queued")
    row = LongRun.objects.get(kind="report")
    draft = files.draft_of(row.id, files.name_of(FileFormat.CSV))
    draft.write_text('"id"\n1\n')
    files.put(row.id, draft)
    until = datetime.now(UTC) + timedelta(days=7)
    LongRun.objects.update(
        state="succeeded",
        ended_at=Now(),
        result={"rows": 1, "bytes": 7, "sha256": "0" * 64, "file_until": until.isoformat()},
    )
    link = page.get_by_role("link", name="Download")
    expect(link).to_be_visible()
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == f"failures-{row.id}.csv"
    assert visit.complaints == []


def test_last_weeks_failures_of_a_customer_come_every_monday(visit: Visit) -> None:
    """J6 of the desk: eight clicks from a search to a scheduled report by mail."""
    message("orders.eu", at=datetime.now(UTC) - timedelta(days=2))
    page = visit.open("/triage/?q=address%3Aorders.eu")
    click = Clicks(page)
    click.open_menu("Download")
    click(role="link", name="As a report")
    expect(page.get_by_label("Filter")).to_have_value("address:orders.eu")
    expect(page.get_by_label("Format")).to_have_value("xlsx")
    for label, text in (
        ("The last days", "7"),
        ("Name", "Failures of orders.eu"),
        ("Schedule", "0 7 * * 1"),
        ("Tell of each scheduled run by", "E-mail (this installation sends none)"),
        ("Send to", "support@example.org"),
    ):
        click.count += 1
        field = page.get_by_label(label, exact=True)
        field.select_option(label=text) if label.startswith("Tell") else field.fill(text)
    expect(page.get_by_role("region", name="Rows of the preview")).to_contain_text("orders.eu")
    page.evaluate("scrollTo(0, 0)")
    assert violations(page) == []
    click(role="button", name="Save under the name")
    assert click.count <= 8
    # All that was typed is still there.
    expect(page.get_by_text("This installation sends no mail")).to_be_visible()
    page.get_by_label("Tell of each scheduled run by", exact=True).select_option("")
    page.get_by_label("Send to", exact=True).fill("")
    page.get_by_role("button", name="Save under the name").click()
    page.wait_for_url("**/reports/")
    row = SavedReport.objects.get()
    assert (row.name, row.days, row.schedule) == ("Failures of orders.eu", 7, "0 7 * * 1")
    assert row.asked["filter"] == {"q": ["address:orders.eu"]}


def test_columns_of_the_chosen_kind_are_clicked_together(visit: Visit) -> None:
    page = visit.open("/reports/new/")
    columns, groups = page.get_by_label("Columns", exact=True), page.get_by_label("Group by")
    for name in ("address", "failed_at", "error_class", "failed_at"):
        page.get_by_role("button", name=name, exact=True).click()
    expect(columns).to_have_value("address, error_class")
    expect(page.get_by_role("button", name="address", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="failed_at", exact=True)).to_have_attribute("aria-pressed", "false")
    groups.focus()
    page.get_by_role("button", name="failed_day", exact=True).click()
    expect(groups).to_have_value("failed_day")
    page.get_by_label("Kind").select_option("decisions")
    expect(page.get_by_role("button", name="error_class", exact=True)).to_have_count(0)
    assert violations(page) == []
    assert visit.complaints == []


def test_the_summary_is_drawn_and_printed(visit: Visit) -> None:
    for address in ("orders.eu", "orders.us", "billing.invoices", "stock", "mail.out", "audit.trail", "crm"):
        message(address, at=datetime.now(UTC) - timedelta(hours=30))
    failures()
    page = visit.open("/reports/summary/?days=28")
    expect(page.get_by_role("img", name="failures by day and address")).to_be_visible()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.reload()
        assert violations(page) == []
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    expect(page.get_by_role("img", name="failures by day and address")).to_be_visible()
    # A4 upright, less its margins.
    page.set_viewport_size({"width": 718, "height": 1047})
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.complaints == []
