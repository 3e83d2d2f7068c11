"""Connect, the guided way: its steps, what it keeps and what it makes."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.rule import PolicyRow
from poisonadmin.store.models.run import LongRun
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter
from tests.sources.checks import make_checks
from workers.brokers.contract import BrokerError

pytestmark = pytest.mark.django_db

URL = "amqp://rabbit.example.org"
LOGIN = {"username": "drain", "password": "planted-canary"}
PLACE = {"name": "rabbit", "kind": "rabbitmq", "url": URL, "verify_tls": "true"} | LOGIN
HTTP = {"target": "http", "url": "https://orders.example.org/in", "secrets": "Authorization: planted-token"}
SENTENCE = {
    "setting.max_delivery_attempts": "6",
    "setting.redelivery_delay": "2 min",
    "setting.redelivery_delay_multiplier": "1",
    "setting.max_redelivery_delay": "2 min",
}
SETTINGS = {"max_delivery_attempts": 6, "redelivery_delay": 120_000, "redelivery_delay_multiplier": 1.0}
SETTINGS |= {"max_redelivery_delay": 120_000}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    assert login == LOGIN
    queues = [FoundQueue("orders.dlq", 12, "dead letters of orders go here"), FoundQueue("orders", 0)]
    message = FoundMessage("orders.dlq", "m-1", None, False, "text/plain", 4, "body", {}, "orders")
    return BrokerCheckResult(12, queues if purpose == "queues" else [], [message] if purpose == "preview" else [])


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    text = answer.content.decode()
    assert "planted" not in text
    return text


def sent(client: Client, path: str, typed: Mapping[str, Any]) -> str:
    """Answer a step; return where it leads."""
    answer = client.post(path, typed)
    assert answer.status_code == 302, answer.content.decode()
    assert "planted" not in answer["Location"]
    return str(answer["Location"])


def until_target(client: Client) -> None:
    """Answer the steps of a broker until it is asked where messages go."""
    assert sent(client, "/connect/", PLACE) == "/connect/queues/"
    assert sent(client, "/connect/queues/", {"queues": "orders.dlq"}) == "/connect/message/"


def test_a_queue_is_found_looked_at_and_connected_to_an_endpoint(admin: Client) -> None:
    assert sent(admin, "/connect/", PLACE) == "/connect/queues/"
    assert "Checking the broker" in page(admin, "/connect/queues/")
    assert make_checks(seen) == 1
    assert 'data-add-queue="orders.dlq"' in page(admin, "/connect/queues/")
    assert sent(admin, "/connect/queues/", {"queues": "orders.dlq"}) == "/connect/message/"
    assert make_checks(seen) == 1
    assert "Nothing was taken" in page(admin, "/connect/message/")
    assert ">\norders</textarea>" in page(admin, "/connect/target/"), "the address of the message that was seen"
    assert sent(admin, "/connect/target/", HTTP | {"patterns": "orders"}) == "/connect/retry/"
    page(admin, "/connect/retry/")
    assert sent(admin, "/connect/retry/", SENTENCE) == "/connect/begin/"
    assert "Tried 6 times, 2 min apart, then an administrator decides." in page(admin, "/connect/begin/")
    assert not Source.objects.exists()
    assert sent(admin, "/connect/begin/", {"mode": "drain"}) == "/connect/made/"

    source, destination, policy = Source.objects.get(), Destination.objects.get(), PolicyRow.objects.get()
    assert (source.name, source.config) == ("rabbit", {"url": URL, "queues": ["orders.dlq"]})
    assert (source.secrets, source.is_enabled) == (LOGIN, True)
    assert (destination.name, destination.kind, destination.config) == ("rabbit", "http", {"url": HTTP["url"]})
    assert destination.secrets == {"Authorization": "planted-token"}
    assert (policy.match, policy.destination, policy.settings) == ("orders", destination, SETTINGS)
    assert set(admin.session["connect"]) == {"made"}
    made = page(admin, "/connect/made/")
    for path in (f"/sources/{source.id}/", "/destinations/one/?name=rabbit", f"/policies/{policy.id}/"):
        assert f'href="{path}"' in made
    assert "No message yet" in made
    first = dead_letter("orders")
    assert "No message yet" in page(admin, "/connect/made/"), "it came from elsewhere"
    Source.objects.update(accepted=1)
    assert f'href="/messages/{first.id}/"' in page(admin, "/connect/made/")


def test_a_step_whose_predecessors_are_open_leads_to_the_first(admin: Client) -> None:
    for step in ("queues", "message", "target", "retry", "begin", "made", "elsewhere"):
        assert admin.get(f"/connect/{step}/")["Location"] == "/connect/"
    sent(admin, "/connect/", PLACE)
    assert admin.get("/connect/target/")["Location"] == "/connect/"
    assert admin.get("/connect/?of=pigeons").status_code == 404


def test_what_was_typed_is_there_when_somebody_comes_back(admin: Client) -> None:
    until_target(admin)
    sent(admin, "/connect/target/", HTTP | {"patterns": "orders.#"})
    sent(admin, "/connect/retry/", SENTENCE | {"preset": "sap"})
    first = page(admin, "/connect/")
    for shown in ('value="rabbit"', f'value="{URL}"', 'placeholder="unchanged"', 'href="/connect/begin/"'):
        assert shown in first
    assert ">\norders.dlq</textarea>" in page(admin, "/connect/queues/")
    assert f'value="{HTTP["url"]}"' in page(admin, "/connect/target/")
    assert 'value="2 min"' in page(admin, "/connect/retry/")
    # Sent again as it is, nothing that is not shown is lost.
    sent(admin, "/connect/", PLACE | {"username": "", "password": "", "version": "1"})
    sent(admin, "/connect/target/", HTTP | {"secrets": "", "patterns": "orders.#"})
    sent(admin, "/connect/begin/", {})
    assert (Source.objects.get().secrets, len(Destination.objects.get().secrets)) == (LOGIN, 1)


def test_another_place_makes_a_new_way_and_gets_no_login_of_the_old_one(admin: Client) -> None:
    until_target(admin)
    moved = PLACE | {"url": "amqp://evil.example", "username": "", "password": "", "version": "1"}
    answer = admin.post("/connect/", moved)
    assert (answer.status_code, "is not sent to another place" in answer.content.decode()) == (422, True)
    assert sent(admin, "/connect/", moved | LOGIN) == "/connect/queues/"
    assert admin.get("/connect/target/")["Location"] == "/connect/"
    sent(admin, "/connect/", {"over": "1"})
    assert "connect_answers" not in admin.session


def test_a_worker_checks_again_where_what_it_saw_is_gone(admin: Client) -> None:
    sent(admin, "/connect/", PLACE)
    LongRun.objects.all().delete()
    assert "Check again" in page(admin, "/connect/queues/")
    assert sent(admin, "/connect/queues/", {"again": "1"}) == "/connect/queues/"
    assert "Checking the broker" in page(admin, "/connect/queues/")


def test_a_broker_that_was_not_reached_is_named_until_the_end(admin: Client) -> None:
    def refused(*_: object) -> BrokerCheckResult:
        raise BrokerError("connection refused")

    until_target(admin)
    assert make_checks(refused) == 2
    sent(admin, "/connect/target/", {"target": "later"})
    last = page(admin, "/connect/begin/")
    assert last.count('class="step-halted"') == 2
    assert "The broker check failed: connection refused" in last
    assert 'value="off" checked' in last
    assert 'value="drain" checked' not in last
    sent(admin, "/connect/message/", {"again": "1"})
    assert make_checks(seen) == 1
    reached = page(admin, "/connect/begin/")
    assert "The broker check failed" not in reached, "it was reached later"
    assert 'value="drain" checked' in reached


@pytest.mark.parametrize(
    ("path", "typed", "field"),
    [
        ("/connect/", PLACE | {"name": "taken"}, "name"),
        ("/connect/", PLACE | {"name": "a/b"}, "name"),
        ("/connect/", PLACE | {"url": "http://rabbit.example.org"}, "url"),
        ("/connect/", PLACE | {"username": ""}, "username"),
        ("/connect/queues/", {"queues": ""}, "queues"),
        ("/connect/queues/", {"queues": "a\na"}, "queues"),
        ("/connect/target/", HTTP | {"url": "", "patterns": "orders"}, "url"),
        ("/connect/target/", HTTP | {"patterns": "bills"}, "patterns"),
        ("/connect/target/", HTTP | {"patterns": "a..b"}, "patterns"),
        ("/connect/target/", HTTP | {"patterns": ""}, "patterns"),
        ("/connect/target/", {"target": "existing", "patterns": "orders"}, "destination"),
        ("/connect/retry/", {"setting.redelivery_delay": "soon"}, "setting.redelivery_delay"),
        ("/connect/retry/", {"setting.redelivery_delay": "2 min"}, "setting.max_redelivery_delay"),
    ],
)
def test_a_mistake_is_named_at_its_field(path: str, typed: dict[str, str], field: str, admin: Client) -> None:
    save_source("taken", kind="rabbitmq", config={"url": URL, "queues": ["a"]}, principal=SYSTEM)
    save_policy("bills", preset=None, settings={}, destination=None, principal=SYSTEM)
    make_orders_destination()
    if path != "/connect/":
        until_target(admin)
    if path == "/connect/retry/":
        sent(admin, "/connect/target/", {"target": "back", "patterns": "orders"})
    answer = admin.post(path, typed)
    text = answer.content.decode()
    assert (answer.status_code, f'id="{field}_error"' in text) == (422, True), text
    assert "planted" not in text


def test_nothing_is_made_where_something_is_in_the_way(admin: Client) -> None:
    until_target(admin)
    sent(admin, "/connect/target/", HTTP | {"patterns": "bills\norders"})
    sent(admin, "/connect/retry/", {})
    save_policy("orders", preset=None, settings={}, destination=None, principal=SYSTEM)
    answer = admin.post("/connect/begin/", {"mode": "drain"})
    assert (answer.status_code, "There is a policy orders already." in answer.content.decode()) == (409, True)
    assert not Source.objects.exists()
    assert not Destination.objects.exists()
    assert PolicyRow.objects.count() == 1


def test_a_queue_is_observed_only_and_what_goes_nowhere_yet_is_not_retried(admin: Client) -> None:
    place = PLACE | {"kind": "artemis", "url": "stomp://artemis.example.org"}
    sent(admin, "/connect/", place)
    sent(admin, "/connect/queues/", {"queues": "orders.dlq"})
    assert sent(admin, "/connect/target/", {"target": "later", "patterns": "orders.#"}) == "/connect/begin/"
    assert "Retries" not in page(admin, "/connect/begin/")
    sent(admin, "/connect/begin/", {"mode": "observe"})
    source = Source.objects.get()
    assert (source.is_enabled, PolicyRow.objects.exists(), Destination.objects.exists()) == (False, False, False)
    assert f'hx-post="/sources/{source.id}/check/" hx-trigger="load' in page(admin, "/connect/made/")


def test_rabbitmq_says_that_it_cannot_be_observed(admin: Client) -> None:
    until_target(admin)
    sent(admin, "/connect/target/", {"target": "later"})
    assert "RabbitMQ cannot be observed" in page(admin, "/connect/begin/")
    assert admin.post("/connect/begin/", {"mode": "observe"}).status_code == 422
    assert not Source.objects.exists()


def test_programs_are_not_observed(admin: Client) -> None:
    sent(admin, "/connect/?of=programs", {"name": "shop"})
    sent(admin, "/connect/target/", {"target": "later"})
    assert admin.post("/connect/begin/", {"mode": "observe"}).status_code == 422
    sent(admin, "/connect/begin/", {"mode": "drain"})
    page(admin, "/connect/made/")


def test_messages_go_back_and_the_source_begins_switched_off(admin: Client) -> None:
    until_target(admin)
    sent(admin, "/connect/target/", {"target": "back", "patterns": "orders.#"})
    sent(admin, "/connect/retry/", {"preset": "sap"})
    sent(admin, "/connect/begin/", {"mode": "off"})
    destination, policy = Destination.objects.get(), PolicyRow.objects.get()
    assert (destination.kind, destination.config, destination.secrets) == ("rabbitmq", {"url": URL}, LOGIN)
    assert (policy.preset, policy.settings, policy.destination) == ("sap", {}, destination)
    assert not Source.objects.get().is_enabled
    assert "The source is switched off" in page(admin, "/connect/made/")
    assert Audit.objects.filter(action="source.disabled").exists()


def test_files_go_to_a_destination_that_there_is(admin: Client, settings: Settings) -> None:
    make_orders_destination()
    assert sent(admin, "/connect/?of=files", {"name": "files", "path": "/srv/dead-letters"}) == "/connect/target/"
    assert "Queues</" not in page(admin, "/connect/target/")
    sent(admin, "/connect/target/", {"target": "existing", "destination": "shop", "patterns": "bills.#"})
    sent(admin, "/connect/retry/", {})
    assert "dead-letters</code>" in page(admin, "/connect/begin/")
    sent(admin, "/connect/begin/", {"mode": "drain"})
    assert Source.objects.get().config == {"path": "/srv/dead-letters"}
    assert PolicyRow.objects.get(match="bills.#").destination == Destination.objects.get()


def test_programs_hand_messages_in_and_nothing_is_drained(admin: Client) -> None:
    sent(admin, "/connect/?of=programs", {"name": "shop"})
    sent(admin, "/connect/target/", HTTP | {"patterns": "orders.#"})
    sent(admin, "/connect/retry/", {})
    sent(admin, "/connect/begin/", {})
    assert (Source.objects.count(), Destination.objects.get().name) == (0, "shop")
    assert "POST /api/v1/messages/" in page(admin, "/connect/made/")


def test_messages_may_go_nowhere_yet(admin: Client) -> None:
    until_target(admin)
    sent(admin, "/connect/target/", {"target": "later"})
    sent(admin, "/connect/retry/", {})
    sent(admin, "/connect/begin/", {"mode": "drain"})
    assert (Source.objects.count(), Destination.objects.count(), PolicyRow.objects.count()) == (1, 0, 0)


@pytest.mark.parametrize("path", ["/", "/triage/?state=NDLV", "/sources/"])
def test_whoever_may_is_led_to_it_from_empty_pages(path: str, admin: Client, operator_browser: Client) -> None:
    assert 'href="/connect/"' in page(admin, path).partition("<main")[2].replace('<a href="/connect/">Connect</a>', "")
    assert 'href="/connect/"' not in page(operator_browser, path)


@pytest.mark.parametrize(
    "url", ["", "amqp://[bad", "amqp://", "amqp://drain:planted-canary@rabbit", "rabbit", "amqp://h:99999999"]
)
def test_a_place_without_a_name_and_with_a_wrong_url_is_refused_at_its_field(admin: Client, url: str) -> None:
    answer = admin.post("/connect/", PLACE | {"name": "", "url": url})
    assert answer.status_code == 422
    assert 'id="url_error"' in answer.content.decode()
