"""The page of an address: which policies apply, where it delivers and who says so, and changing both there."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.rule import PolicyRow
from tests.fixtures.pages import dead_letter, html_of, usable_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]

PAGE = "/addresses/one/?name=orders.eu"


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    """Return the browser of an administrator, with a message on orders.eu."""
    dead_letter("orders.eu")
    return browser_of("admin")


def test_it_shows_the_policies_that_apply_and_who_names_the_destination(admin: Client) -> None:
    save_policy("orders.eu", preset=None, settings={"crash_limit": 7}, destination=None, principal=SYSTEM)
    [wider] = PolicyRow.objects.exclude(match="orders.eu")
    text = html_of(admin.get(PAGE))
    assert text.index(">orders.eu</a>") < text.index(f">{wider.match}</a>")
    assert "crash_limit=7" in text
    assert f'named by the policy <code class="wild">{wider.match}</code>' in " ".join(text.split())
    assert "Change the policy of this" in text
    listed = html_of(admin.get("/addresses/"))
    assert f"then {wider.match}" in listed


def test_its_destination_is_changed_there_and_nothing_else_of_its_policy(admin: Client) -> None:
    url = {"url": "http://127.0.0.1:9/"}
    save_destination("other", kind="http", config=url, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    sent = {"name": "orders.eu", "destination": "other", "version": "0"}
    assert admin.post("/addresses/one/destination/", sent).headers["Location"] == PAGE
    save_policy("orders.eu", preset="artemis", settings={"crash_limit": 7}, destination="other", principal=SYSTEM)
    text = html_of(admin.get(PAGE))
    assert "named by the policy of this address" in text
    assert 'name="version" value="2"' in text
    stale = html_of(admin.post("/addresses/one/destination/", sent | {"destination": "", "version": "1"}, follow=True))
    assert "has changed since it was read" in stale
    admin.post("/addresses/one/destination/", sent | {"destination": "", "version": "2"})
    row = PolicyRow.objects.get(match="orders.eu")
    assert (row.preset, row.settings, row.destination) == ("artemis", {"crash_limit": 7}, None)


def test_a_policy_for_it_alone_is_made_from_there_and_leads_back(admin: Client) -> None:
    (link,) = re.findall('href="(/policies/new/[^"]*)"', html_of(admin.get(PAGE)))
    new = admin.post(unescape(link), {"match": "orders.eu", "setting.crash_limit": "7"})
    assert new.headers["Location"] == PAGE


def test_who_may_not_configure_is_offered_nothing(admin: Client, operator_browser: Client) -> None:
    assert "Deliver this address to" in html_of(admin.get(PAGE))
    assert 'title="For the role admin"' in html_of(operator_browser.get(PAGE))
    text = usable_of(operator_browser.get(PAGE))
    assert "Deliver this address to" not in text
    assert "Make a policy" not in text
    assert "Policies that apply" in text
