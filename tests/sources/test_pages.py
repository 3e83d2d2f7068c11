"""Sources on their pages: the forms, the broker check, how a source does."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundGroup, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.intake import Source
from tests.masking.planted import mask
from tests.sources.checks import make_checks

pytestmark = pytest.mark.django_db

URL = "amqp://rabbit.example.org"
TYPED = {"name": "shop", "kind": "rabbitmq", "url": URL, "queues": "orders.dlq\n bills.dlq \n", "verify_tls": "true"}
LOGIN = {"username": "drain", "password": "planted-canary"}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


@pytest.fixture
def source(db: None) -> Source:
    config = {"url": URL, "queues": ["orders.dlq"]}
    return save_source("shop", kind="rabbitmq", config=config, secrets=LOGIN, principal=SYSTEM)


def page(client: Client, path: str, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_broker_is_drained_as_the_form_says(admin: Client, source: Source) -> None:
    typed = TYPED | LOGIN | {"address": "rabbit.{original}", "readers": "4", "version": "1"}
    answer = admin.post(f"/sources/{source.id}/edit/", typed)
    row = Source.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/sources/{row.id}/")
    assert row.config == {
        "url": URL,
        "queues": ["orders.dlq", "bills.dlq"],
        "address": "rabbit.{original}",
        "readers": 4,
    }
    assert row.secrets == LOGIN
    text = page(admin, f"/sources/{row.id}/")
    assert "secret, write-only" in text
    assert "planted-canary" not in text + page(admin, f"/sources/{row.id}/edit/")


def test_the_form_of_kafka_names_topics_and_leaves_out_what_kafka_has_not(admin: Client) -> None:
    made = {"url": "kafka://k.example.org", "topics": ["orders-dlt"]}
    row = save_source("shop", kind="kafka", config=made, principal=SYSTEM)
    typed = TYPED | {"url": "kafka://k.example.org", "readers": "4", "sasl_mechanism": "PLAIN", "version": "1"}
    assert admin.post(f"/sources/{row.id}/edit/", typed).status_code == 302
    config = Source.objects.get().config
    assert (config["topics"], config["group"]) == (["orders.dlq", "bills.dlq"], "poisonadmin-shop")
    assert "readers" not in config


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"url": "amqp://drain:canary@rabbit.example.org"}, "url"),
        ({"queues": ""}, "queues"),
        ({"readers": "many"}, "readers"),
        ({"password": "planted-canary"}, "username"),
    ],
)
def test_a_mistake_is_named_at_its_field_and_no_password_repeated(
    typed: dict[str, str], field: str, admin: Client, source: Source
) -> None:
    answer = admin.post(f"/sources/{source.id}/edit/", TYPED | {"version": "1"} | typed)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert f'id="{field}"' in text.partition('aria-invalid="true"')[0]
    assert "planted-canary" not in text
    assert Source.objects.get().version == 1


def test_all_mistakes_of_a_broker_are_shown_at_once(admin: Client) -> None:
    wrong = {"url": "amqp://a@b", "readers": "many", "address": "a..b", "password": "x"}
    text = admin.post("/connect/", TYPED | wrong).content.decode()
    for field in ("url", "readers", "address", "username"):
        assert f'id="{field}_error"' in text, field
    assert "readers:" not in text
    assert "type once more:" in text
    assert 'href="#password">Password' in text


def test_a_login_is_asked_for_where_the_url_was_changed(admin: Client, source: Source) -> None:
    text = admin.post(
        f"/sources/{source.id}/edit/", TYPED | {"url": "amqp://other.example", "readers": "many", "version": "1"}
    ).content.decode()
    for field in ("url", "username", "password", "readers"):
        assert f'id="{field}_error"' in text, field
    assert "The stored login is not sent to another place" in text
    assert "once more" not in text, "none was typed"


def test_a_login_that_is_left_empty_stays_and_can_be_forgotten(admin: Client, source: Source) -> None:
    path = f"/sources/{source.id}/edit/"
    assert admin.post(path, TYPED | {"version": "1"}).status_code == 302
    assert Source.objects.get().secrets == LOGIN
    assert admin.post(path, TYPED | {"version": "1"}).status_code == 412
    moved = admin.post(path, TYPED | {"url": "amqp://evil.example", "version": "2"})
    assert (moved.status_code, Source.objects.get().config["url"]) == (422, URL)
    assert admin.post(path, TYPED | {"forget_login": "true", "version": "2"}).status_code == 302
    assert Source.objects.get().secrets == {}


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    message = FoundMessage("orders.dlq", "m-1", None, False, "text/plain", 9, "<script>1</script>", {"x-<b>": "\u202e"})
    queue = FoundQueue("orders.<dlq>", 1_234, "named by the policy dlx")
    if purpose == "groups":
        at = datetime(2026, 1, 31, tzinfo=UTC)
        group = FoundGroup("0" * 16, "NoStock: <b>canary</b>", 3, ["orders.eu"], at, at, message)
        return BrokerCheckResult(7, groups=[group], groups_of=3)
    return BrokerCheckResult(3, [queue] if purpose == "queues" else [], [message] if purpose == "preview" else [])


def test_a_page_waits_for_the_queues_that_a_worker_finds(admin: Client, source: Source) -> None:
    asked = admin.post(f"/sources/{source.id}/check/", {"check": "queues"})
    assert asked.status_code == 302
    assert "Checking the broker" in page(admin, asked["Location"])
    assert admin.get(asked["Location"], headers={"HX-Request": "true"}).status_code == 204
    assert make_checks(seen) == 1
    text = page(admin, asked["Location"], **{"HX-Request": "true"})
    assert 'data-add-queue="orders.&lt;dlq&gt;"' in text
    assert "1,234" in text


def test_a_worker_looks_for_nothing_else(admin: Client, source: Source) -> None:
    assert admin.post(f"/sources/{source.id}/check/", {"check": "everything"}).status_code == 400


def test_a_preview_shows_a_stranger_s_text_as_text(operator_browser: Client, source: Source) -> None:
    asked = operator_browser.post(f"/sources/{source.id}/check/", {"check": "preview"})
    assert make_checks(seen) == 1
    text = page(operator_browser, asked["Location"])
    assert "&lt;script&gt;1&lt;/script&gt;" in text
    assert "<script>1" not in text
    assert "x-&lt;b&gt;" in text
    assert "\u202e" not in text


def test_the_failures_of_what_waits_are_shown_and_lead_to_their_group_here(operator_browser: Client) -> None:
    config = {"url": "kafka://kafka.example.org", "topics": ["orders.dlt"]}
    source = save_source("kafka", kind="kafka", config=config, principal=SYSTEM)
    group = FailureGroup.objects.create(fingerprint="0" * 16, version=1, title="NoStock", error_class="NoStock")
    asked = operator_browser.post(f"/sources/{source.id}/check/", {"check": "groups"})
    assert make_checks(seen) == 1
    text = page(operator_browser, asked["Location"])
    for shown in ("NoStock: &lt;b&gt;canary", "3 of them were read", f'href="/groups/{group.id}/"', "orders.eu"):
        assert shown in text, shown
    merged_into = FailureGroup.objects.create(fingerprint="1" * 16, version=1, title="t", error_class="c")
    FailureGroup.objects.filter(id=group.id).update(merged_into=merged_into)
    assert f'href="/groups/{merged_into.id}/"' in page(operator_browser, asked["Location"])
    mask("#")
    text = page(operator_browser, asked["Location"])
    assert ("canary" in text, "<script>" in text, "[masked:" in text) == (False, False, True)


@pytest.mark.parametrize("purpose", ["preview", "connection"])
def test_a_check_with_messages_is_read_by_nobody_who_reads_payloads_no_more(
    purpose: str, operator_browser: Client, source: Source
) -> None:
    asked = operator_browser.post(f"/sources/{source.id}/check/", {"check": purpose})
    assert make_checks(seen) == 1
    assert operator_browser.get(asked["Location"]).status_code == 200
    Access.objects.update(role=Role.VIEWER)
    assert operator_browser.get(asked["Location"]).status_code == (403 if purpose == "preview" else 200)


def test_rabbitmq_cannot_be_observed(admin: Client, source: Source) -> None:
    assert "Observe" not in page(admin, f"/sources/{source.id}/")
    answer = admin.post(f"/sources/{source.id}/check/", {"check": "groups"})
    assert (answer.status_code, "RabbitMQ cannot be observed" in answer.content.decode()) == (400, True)


def test_a_source_in_trouble_says_since_when_and_when_it_is_tried_again(
    operator_browser: Client, source: Source
) -> None:
    Source.objects.update(
        failures=3,
        last_error="no connection to rabbit.example.org:5672",
        last_error_at="2026-01-01T00:00:00Z",
        next_check_at="2040-01-01T00:00:00Z",
        lag=1_204,
        checked_at="2026-01-01T00:00:00Z",
    )
    text = page(operator_browser, f"/sources/{source.id}/")
    for shown in ("3 attempts", "no connection to rabbit.example.org:5672", "The next attempt", "1,204", "Unreachable"):
        assert shown in text
    assert "Unreachable" in page(operator_browser, "/sources/")
    Source.objects.update(failures=0)
    assert "Unreachable" not in page(operator_browser, "/sources/") + page(operator_browser, f"/sources/{source.id}/")


def test_switching_needs_a_reason(operator_browser: Client, source: Source) -> None:
    assert operator_browser.post(f"/sources/{source.id}/disable/", {"reason": " "}).status_code == 422
    assert operator_browser.post(f"/sources/{source.id}/disable/", {"reason": "maintenance"}).status_code == 302
    assert not Source.objects.get().is_enabled


@pytest.fixture
def directory(db: None) -> Source:
    return save_source("files", kind="directory", config={"path": "/srv/dead-letters"}, principal=SYSTEM)


def test_a_directory_is_changed_by_its_form(admin: Client, directory: Source) -> None:
    row = directory
    path = f"/sources/{row.id}/edit/"
    assert 'value="/srv/dead-letters"' in page(admin, path)
    changed = {"name": "another", "path": "/srv/others", "version": "1"}
    assert admin.post(path, changed).status_code == 302
    assert admin.post(path, changed).status_code == 412
    row.refresh_from_db()
    assert (row.name, row.config, row.version) == ("files", {"path": "/srv/others"}, 2)
    assert admin.post(path, changed | {"version": ""}).status_code == 412


@pytest.mark.parametrize(
    ("path", "typed", "field"),
    [
        ("/sources/{}/edit/", {"path": "relative"}, "path"),
        ("/connect/?of=files", {"path": "/etc/poison"}, "path"),
        ("/connect/?of=files", {"name": ""}, "name"),
        ("/connect/?of=files", {"name": "files"}, "name"),
    ],
)
def test_a_directory_that_cannot_be_read_is_refused_at_its_field(
    path: str, typed: dict[str, str], field: str, admin: Client, directory: Source
) -> None:
    sent = {"name": "more", "path": "/srv/dead-letters", "version": "1"} | typed
    answer = admin.post(path.format(directory.id), sent)
    assert answer.status_code == 422
    assert f'id="{field}_error"' in answer.content.decode()
    assert Source.objects.get().version == 1


def test_a_directory_has_no_broker_to_check(admin: Client, directory: Source) -> None:
    assert admin.post(f"/sources/{directory.id}/check/", {"check": "connection"}).status_code == 400


def test_the_old_forms_lead_to_the_guided_way(admin: Client) -> None:
    assert admin.get("/sources/broker/")["Location"] == "/connect/?of=broker"
    assert admin.get("/sources/directory/")["Location"] == "/connect/?of=files"


def test_the_list_offers_both_kinds_of_source_to_administrators(admin: Client, operator_browser: Client) -> None:
    for path in ("/connect/", "/connect/?of=files"):
        assert f'href="{path}"' in page(admin, "/sources/")
        assert f'href="{path}"' not in page(operator_browser, "/sources/")
