"""The form of a policy: empty fields inherit, mistakes name the field, and nobody overwrites another's change."""

import pytest
from django.test import Client

from poisonadmin.domain.access import SYSTEM
from poisonadmin.operations import configure
from poisonadmin.store.models import PolicyRow

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(browser_of):  # type: ignore[no-untyped-def]
    return browser_of("admin")


def test_only_what_is_filled_in_is_set(admin: Client, delivering: None) -> None:
    answer = admin.post(
        "/policies/new/",
        {
            "match": "invoices.#",
            "preset": "artemis",
            "destination": "shop",
            "setting.redelivery_delay": "1500",
            "setting.redelivery_delay_multiplier": "1.5",
            "setting.ordered": "true",
            "setting.on_exhausted": "park",
            "setting.business_keys": "order.id, customer.id",
            "setting.crash_limit": "",
        },
    )
    assert answer.status_code == 302
    row = PolicyRow.objects.get(match="invoices.#")
    assert (row.preset, row.destination.name if row.destination else None, row.version) == ("artemis", "shop", 1)
    assert row.settings == {
        "redelivery_delay": 1500,
        "redelivery_delay_multiplier": 1.5,
        "ordered": True,
        "on_exhausted": "park",
        "business_keys": ["order.id", "customer.id"],
    }
    text = admin.get(f"/policies/{row.id}/").content.decode()
    assert 'name="setting.redelivery_delay" value="1500"' in text
    assert 'value="order.id, customer.id"' in text


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("setting.redelivery_delay", "soon"),
        ("setting.redelivery_delay", "-1"),
        ("setting.redelivery_collision_avoidance_factor", "1.5"),
        ("match", "a..b"),
        ("preset", "nonsense"),
        ("destination", "nowhere"),
    ],
)
def test_a_mistake_saves_nothing_and_keeps_what_was_typed(admin: Client, field: str, text: str) -> None:
    answer = admin.post("/policies/new/", {"match": "orders.#", "setting.crash_limit": "3", field: text})
    assert answer.status_code in {404, 422}
    page = answer.content.decode()
    assert "Nothing was saved." in page
    assert 'name="setting.crash_limit" value="3"' in page
    assert not PolicyRow.objects.exists()


def test_a_form_of_an_older_version_is_refused(admin: Client) -> None:
    row = configure.save_policy("orders.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    configure.save_policy("orders.#", preset=None, settings={"crash_limit": 5}, destination=None, principal=SYSTEM)
    answer = admin.post(f"/policies/{row.id}/", {"match": "orders.#", "version": "1", "setting.crash_limit": "9"})
    assert answer.status_code == 412
    assert PolicyRow.objects.get().settings == {"crash_limit": 5}


def test_a_preview_shows_the_waits_and_saves_nothing(admin: Client) -> None:
    answer = admin.post(
        "/policies/new/",
        {
            "match": "orders.#",
            "setting.redelivery_delay": "1000",
            "setting.max_redelivery_delay": "4000",
            "preview": "1",
        },
    )
    text = answer.content.decode()
    assert "1: 1000 ms" in text
    assert "3: 4000 ms" in text
    assert not PolicyRow.objects.exists()


def test_what_is_in_force_says_where_each_value_comes_from(admin: Client) -> None:
    configure.save_policy("orders.#", preset="sap", settings={}, destination=None, principal=SYSTEM)
    configure.save_policy("orders.eu", preset=None, settings={"crash_limit": 5}, destination=None, principal=SYSTEM)
    text = admin.get("/policies/?address=orders.eu").content.decode()
    assert "orders.# (sap)" in text
    assert '<span class="tag tag-note">orders.eu</span>' in text
    assert "built in" in admin.get("/policies/?address=other").content.decode()


def test_a_policy_is_deleted_by_its_button_only(admin: Client) -> None:
    row = configure.save_policy("orders.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    assert admin.get(f"/policies/{row.id}/delete/").status_code == 405
    admin.post(f"/policies/{row.id}/delete/")
    assert not PolicyRow.objects.exists()
