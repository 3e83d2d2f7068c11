"""The form of a policy: empty fields inherit, mistakes name the field, and nobody overwrites another's change."""

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.rule import PolicyRow
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(browser_of):  # type: ignore[no-untyped-def]
    return browser_of("admin")


def test_only_what_is_filled_in_is_set(admin: Client, orders_destination: None) -> None:
    answer = admin.post(
        "/policies/new/",
        {
            "match": "invoices.#",
            "preset": "artemis",
            "destination": "shop",
            "setting.redelivery_delay": "1 min 1.5s",
            "setting.redelivery_delay_multiplier": "1.5",
            "setting.redelivery_collision_avoidance_factor": "15 %",
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
        "redelivery_delay": 61_500,
        "redelivery_delay_multiplier": 1.5,
        "redelivery_collision_avoidance_factor": 0.15,
        "ordered": True,
        "on_exhausted": "park",
        "business_keys": ["order.id", "customer.id"],
    }
    text = html_of(admin.get(f"/policies/{row.id}/"))
    assert 'name="setting.redelivery_delay" value="1 min 1.5 s"' in text
    assert 'name="setting.redelivery_collision_avoidance_factor" value="15 %"' in text
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
    page = html_of(answer)
    assert "Nothing was saved." in page
    assert 'name="setting.crash_limit" value="3"' in page
    assert not PolicyRow.objects.exists()


def test_none_is_typed_and_shown_where_a_number_may_be_null(admin: Client) -> None:
    typed = {"match": "orders.#", "setting.keep_delivered_days": "none", "setting.keep_payload_days": "30"}
    assert admin.post("/policies/new/", typed).status_code == 302
    row = PolicyRow.objects.get(match="orders.#")
    assert row.settings == {"keep_delivered_days": None, "keep_payload_days": 30}
    assert 'name="setting.keep_delivered_days" value="none"' in html_of(admin.get(f"/policies/{row.id}/"))


def test_a_form_of_an_older_version_is_refused(admin: Client) -> None:
    row = save_policy("orders.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    save_policy("orders.#", preset=None, settings={"crash_limit": 5}, destination=None, principal=SYSTEM)
    answer = admin.post(f"/policies/{row.id}/", {"match": "orders.#", "version": "1", "setting.crash_limit": "9"})
    assert answer.status_code == 412
    assert PolicyRow.objects.get().settings == {"crash_limit": 5}


def test_a_new_policy_never_replaces_the_one_of_its_pattern(admin: Client, orders_destination: None) -> None:
    row = save_policy("bills.#", preset="sap", settings={"crash_limit": 3}, destination="shop", principal=SYSTEM)
    typed = {"match": "bills.#", "setting.crash_limit": "9"}
    answer = admin.post("/policies/new/", typed)
    text = html_of(answer)
    assert answer.status_code == 409
    assert 'id="match_error"' in text
    assert "There is a policy bills.# already." in text
    assert 'name="setting.crash_limit" value="9"' in text
    stored = PolicyRow.objects.get(match="bills.#")
    assert (stored.version, stored.settings, stored.destination_id) == (1, {"crash_limit": 3}, row.destination_id)


def test_the_preview_of_a_new_policy_says_that_its_pattern_has_one(admin: Client) -> None:
    row = save_policy("bills.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    said = f'href="/policies/{row.id}/">Change the existing one'
    assert said in html_of(admin.post("/policies/new/", {"match": "bills.#", "preview": "1"}))
    htmx = {"HX-Request": "true"}
    assert said in html_of(admin.post("/policies/preview/?new=true", {"match": "bills.#"}, headers=htmx))
    assert said not in html_of(admin.post("/policies/preview/?new=true", {"match": "bills.eu"}, headers=htmx))
    assert said not in html_of(admin.post("/policies/preview/", {"match": "bills.#"}, headers=htmx))
    assert "/policies/preview/?new=true" in html_of(admin.get("/policies/new/"))
    assert "/policies/preview/?new=true" not in html_of(admin.get(f"/policies/{row.id}/"))


@pytest.mark.parametrize("version", [{}, {"version": ""}, {"version": "0"}])
def test_a_form_without_a_version_changes_nothing(admin: Client, version: dict[str, str]) -> None:
    row = save_policy("bills.#", preset=None, settings={"crash_limit": 3}, destination=None, principal=SYSTEM)
    answer = admin.post(f"/policies/{row.id}/", {"match": "bills.#", "setting.crash_limit": "9"} | version)
    assert answer.status_code == 412
    assert PolicyRow.objects.get().settings == {"crash_limit": 3}


def test_a_conflict_says_who_and_when_and_can_be_got_out_of(admin: Client) -> None:
    row = save_policy("bills.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    save_policy("bills.#", preset=None, settings={"crash_limit": 5}, destination=None, principal=SYSTEM)
    path, typed = f"/policies/{row.id}/", {"match": "bills.#", "setting.crash_limit": "9"}
    answer = admin.post(path, typed | {"version": "1"})
    text = html_of(answer)
    assert answer.status_code == 412
    assert text.count("Nothing was saved.") == 1
    assert "nothing was saved" not in text
    assert ">system</span> saved a change" in text
    assert f'href="{path}" target="_blank"' in text
    assert 'name="setting.crash_limit" value="9"' in text
    assert 'name="version" value="2"' in text
    assert admin.post(path, typed | {"version": "2"}).status_code == 302
    assert PolicyRow.objects.get().settings == {"crash_limit": 9}


def test_all_mistakes_of_a_policy_are_shown_at_once(admin: Client) -> None:
    wrong = {
        "match": "a..b", "preset": "nonsense", "setting.redelivery_delay": "soon",
        "setting.redelivery_collision_avoidance_factor": "1.5", "setting.crash_limit": "0",
        "setting.dead_letter_address": "x y",
    }  # fmt: skip
    text = html_of(admin.post("/policies/new/", wrong))
    for field in wrong:
        assert f'id="{field}_error"' in text, field
    assert "is not a pattern" in text
    assert "crash_limit: must" not in text
    assert "Must be within 1..2147483647." in text
    assert "This is required." in html_of(admin.post("/policies/new/", {"match": ""}))


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
    text = html_of(answer)
    assert 'data-waits="1000,2000,4000,4000,4000,4000,4000,4000,4000"' in text
    assert "1000 ms x 2^1 = 2000, cap 4000" in text
    assert not PolicyRow.objects.exists()


def test_a_live_preview_inherits_what_the_form_leaves_empty(admin: Client) -> None:
    save_policy("orders.#", preset="sap", settings={"redelivery_delay": 700}, destination=None, principal=SYSTEM)
    typed = {"match": "orders.eu", "setting.max_delivery_attempts": "3", "failures": "9"}
    text = html_of(admin.post("/policies/preview/", typed, headers={"HX-Request": "true"}))
    assert 'data-waits="700,700"' in text
    assert 'id="in-force" hx-swap-oob="true"' in text
    assert "<html" not in text
    assert '<span class="tag tag-note">orders.# (sap)</span>' in text
    assert '<span class="tag tag-note">orders.eu</span>' in text
    page = html_of(admin.post("/policies/preview/", {**typed, "match": ""}))
    assert "<html" in page
    assert 'data-waits="5000,10000"' in page
    assert 'name="setting.max_delivery_attempts" value="3"' in page
    assert 'name="failures" value="9"' in page


@pytest.mark.parametrize(
    "typed",
    [
        {"match": "a..b"},
        {"setting.redelivery_delay": "soon"},
        {"preset": "nonsense"},
        {"failures": "many"},
        {"failures": "1001"},
        {"message_id": "x"},
        {"message_id": "9" * 30},
    ],
)
def test_a_preview_of_a_mistake_says_what_is_wrong(admin: Client, typed: dict[str, str]) -> None:
    answer = admin.post("/policies/preview/", typed)
    assert answer.status_code == 200
    text = html_of(answer)
    assert "Correct these values to see it" in text
    assert "not yet" not in text


def test_the_jitter_of_a_message_is_in_the_preview(admin: Client) -> None:
    text = html_of(admin.post("/policies/preview/", {"message_id": "17", "failures": "4"}))
    assert "jitter" in text
    assert "with that message’s jitter" in text


def test_a_policy_shows_its_versions_and_what_each_changed(admin: Client) -> None:
    row = save_policy("orders.#", preset="sap", settings={"crash_limit": 3}, destination=None, principal=SYSTEM)
    admin.post(
        f"/policies/{row.id}/",
        {"match": "orders.#", "preset": "sap", "version": "1", "setting.redelivery_delay": "9"},
    )
    text = html_of(admin.get(f"/policies/{row.id}/"))
    assert "Version 2" in text
    assert "Version 1" in text
    assert text.index("Version 2") < text.index("Version 1")
    assert '<code>crash_limit</code></th><td class="wild">3</td><td class="wild">–</td>' in text
    assert '<code>redelivery_delay</code></th><td class="wild">–</td><td class="wild">9 ms</td>' in text


def test_a_threshold_that_can_never_be_reached_is_warned_of(admin: Client) -> None:
    settings = {"listener_max_retries": 2, "backout_threshold": 2}
    save_policy("orders.#", preset=None, settings=settings, destination=None, principal=SYSTEM)
    warning = "listener_max_retries (2) should exceed backout_threshold (2)"
    assert warning in html_of(admin.get("/policies/"))
    typed = {"match": "orders.#", "setting.listener_max_retries": "2", "setting.backout_threshold": "2"}
    assert warning in html_of(admin.post("/policies/preview/", typed))


def test_a_retry_schedule_ends_where_the_address_stops(admin: Client) -> None:
    typed = {"preset": "websphere_mq", "setting.listener_max_retries": "3", "setting.redelivery_delay": "50"}
    text = html_of(admin.post("/policies/preview/", typed))
    assert 'data-waits="50,50"' in text
    assert "the address stops" in text
    assert "3 failures stop the address" in text
    broker = html_of(admin.post("/policies/preview/", {"preset": "service_broker"}))
    assert "5 roll-backs stop the address" in broker
    assert "4 failures end the conversation" in broker


def test_the_simulator_is_for_everybody_and_saves_nothing(browser_of) -> None:  # type: ignore[no-untyped-def]
    viewer = browser_of("viewer")
    text = html_of(viewer.get("/policies/simulator/"))
    assert "data-waits=" in text
    assert 'style="' not in text
    assert viewer.post("/policies/preview/", {"preset": "amps"}).status_code == 200
    assert not PolicyRow.objects.exists()


def test_what_is_in_force_says_where_each_value_comes_from(admin: Client) -> None:
    save_policy("orders.#", preset="sap", settings={}, destination=None, principal=SYSTEM)
    save_policy("orders.eu", preset=None, settings={"crash_limit": 5}, destination=None, principal=SYSTEM)
    text = html_of(admin.get("/policies/?address=orders.eu"))
    assert "orders.# (sap)" in text
    assert '<span class="tag tag-note">orders.eu</span>' in text
    assert "built in" in html_of(admin.get("/policies/?address=other"))


def test_a_policy_is_deleted_by_its_button_only(admin: Client) -> None:
    row = save_policy("orders.#", preset=None, settings={}, destination=None, principal=SYSTEM)
    assert admin.get(f"/policies/{row.id}/delete/").status_code == 405
    admin.post(f"/policies/{row.id}/delete/")
    assert not PolicyRow.objects.exists()


def test_a_limited_administrator_keeps_what_a_policy_names_and_names_nothing_foreign(
    admin: Client, orders_destination: None
) -> None:
    Access.objects.update(address_patterns=["orders.#"])
    row = PolicyRow.objects.get()
    path = f"/policies/{row.id}/"
    assert '<option value="shop" selected>' in html_of(admin.get(path))
    typed = {"match": "orders.#", "destination": "shop", "version": "1", "setting.max_delivery_attempts": "7"}
    assert admin.post(path, typed).status_code == 302
    row.refresh_from_db()
    assert (row.destination.name if row.destination else None, row.settings) == ("shop", {"max_delivery_attempts": 7})
    assert "shop" not in html_of(admin.get("/policies/new/"))
    for field, named in (("destination", "shop"), ("setting.dead_letter_address", "billing.dead")):
        answer = admin.post("/policies/new/", {"match": "orders.eu", field: named})
        assert answer.status_code == 404
        assert f'id="{field}_error"' in html_of(answer)
    assert PolicyRow.objects.count() == 1


def test_versions_and_lists_show_durations_and_switches_as_the_form_does(admin: Client) -> None:
    settings = {"redelivery_delay": 90_000, "ordered": True, "crash_limit": 3}
    save_policy("orders.#", preset="artemis", settings=settings, destination=None, principal=SYSTEM)
    page = html_of(admin.get(f"/policies/{PolicyRow.objects.get().id}/"))
    versions = page.partition('id="t-versions"')[2]
    for text in ("1 min 30 s", "yes", "3", "artemis"):
        assert f'<td class="wild">–</td><td class="wild">{text}</td>' in versions, text
    assert "redelivery_delay=1 min 30 s" in html_of(admin.get("/policies/"))
