"""Destinations as they are shown: each kind with what it has."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of, usable_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an HTTP destination and a handler."""
    (tmp_path / "orders.py").touch()
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    make_orders_destination()
    save_destination(
        "indexer",
        kind="handler",
        config={"callable": "orders:handle", "memory_mb": 96},
        secrets=None,
        max_rate_per_second=None,
        principal=SYSTEM,
    )


def test_the_list_says_where_each_goes(both: None, operator_browser: Client) -> None:
    text = html_of(operator_browser.get("/destinations/"))
    for shown in ("HTTP", "POST http://127.0.0.1:9/", "Handler", "orders:handle"):
        assert shown in text


def test_a_handler_shows_its_limits_and_no_headers(both: None, operator_browser: Client) -> None:
    text = html_of(operator_browser.get("/destinations/one/?name=indexer"))
    for name, value in (("memory_mb", "96"), ("cpu_seconds", "30.0"), ("timeout_ms", "30000"), ("concurrency", "2")):
        assert f'<dt>{name}</dt><dd class="wild">{value}</dd>' in text
    assert "Runs here, in a sandbox" in text
    assert "Headers it adds" not in text


def test_a_destination_is_switched_off_and_on_with_a_reason(both: None, operator_browser: Client) -> None:
    page = "/destinations/one/?name=indexer"
    assert 'action="/destinations/disable/"' in html_of(operator_browser.get(page))
    refused = operator_browser.post("/destinations/disable/", {"name": "indexer", "reason": " "})
    assert refused.status_code == 422
    assert "Say why" in html_of(refused)
    answer = operator_browser.post("/destinations/disable/", {"name": "indexer", "reason": "maintenance"})
    assert (answer.status_code, answer["Location"]) == (302, page)
    assert not Destination.objects.get(name="indexer").is_enabled
    assert Audit.objects.get(action="destination.disabled").note == "maintenance"
    assert 'action="/destinations/enable/"' in html_of(operator_browser.get(page))
    operator_browser.post("/destinations/enable/", {"name": "indexer", "reason": "done"})
    assert Destination.objects.get(name="indexer").is_enabled


def test_a_destination_is_deleted_unless_a_policy_names_it(
    both: None, operator_browser: Client, browser_of: Callable[[str], Client]
) -> None:
    admin, page = browser_of("admin"), "/destinations/one/?name=indexer"
    assert 'action="/destinations/delete/"' in html_of(admin.get(page))
    assert 'action="/destinations/delete/"' not in usable_of(operator_browser.get(page))
    named = admin.post("/destinations/delete/", {"name": "shop"})
    assert named.status_code == 409
    assert "is named by policies" in html_of(named)
    assert admin.post("/destinations/delete/", {"name": "indexer"}).status_code == 302
    assert not Destination.objects.filter(name="indexer").exists()
    assert admin.post("/destinations/delete/", {"name": "indexer"}).status_code == 404


def test_an_http_destination_says_when_a_lost_connection_counts_as_a_crash(
    both: None, operator_browser: Client
) -> None:
    page = "/destinations/one/?name=shop"
    assert '<dt>crash_on</dt><dd class="wild">none</dd>' in html_of(operator_browser.get(page))
    save_destination(
        "shop",
        kind="http",
        config={"url": "http://127.0.0.1:9/", "crash_on": "connection_lost"},
        secrets=None,
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    text = html_of(operator_browser.get(page))
    assert '<dt>crash_on</dt><dd class="wild">connection_lost</dd>' in text
    assert "Headers it adds" in text
