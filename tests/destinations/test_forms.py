"""The forms of destinations: each kind is added and changed, and what is secret is never shown again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.destinations.domain.handler_config import DEFAULTS as HANDLER
from poisonadmin.destinations.domain.http_config import DEFAULTS as HTTP
from poisonadmin.destinations.pages import HandlerForm, HttpForm
from poisonadmin.destinations.queries import DestinationRow, get_destination
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.destination import Destination

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.org/in"
COPIED = "\n".join(HTTP["copy_headers"])
TYPED = {"name": "hooks", "url": URL, "verify_tls": "on", "copy_headers": COPIED}
SECRET = {"Authorization": "Bearer planted-canary"}
BROKER = "amqp://rabbit.example.org"
LOGIN = {"username": "drain", "password": "planted-canary"}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def stored() -> Destination:
    return Destination.objects.get()


def test_every_setting_of_an_http_destination_can_be_set(admin: Client) -> None:
    more = {
        "method": "PUT", "headers": "X-Tenant: shop\nX-Kind: a: b", "secrets": "Authorization: Bearer planted-canary",
        "timeout_ms": "5000", "concurrency": "8", "copy_headers": "x-*\ntraceparent", "crash_on": "on",
        "max_rate_per_second": "2.5", "verify_tls": "",
    }  # fmt: skip
    answer = admin.post("/destinations/http/", {name: text for name, text in (TYPED | more).items() if text})
    assert (answer.status_code, answer["Location"]) == (302, "/destinations/one/?name=hooks")
    row = stored()
    assert row.config == {
        "url": URL,
        "method": "PUT",
        "headers": {"X-Tenant": "shop", "X-Kind": "a: b"},
        "timeout_ms": 5000,
        "concurrency": 8,
        "verify_tls": False,
        "copy_headers": ["x-*", "traceparent"],
        "crash_on": "connection_lost",
    }
    assert set(row.config) == {"url", *HTTP}
    assert (row.secrets, row.max_rate_per_second, row.kind) == (SECRET, 2.5, "http")
    text = page(admin, "/destinations/one/?name=hooks") + page(admin, "/destinations/http/?name=hooks")
    assert "X-Kind: a: b" in text
    assert "unchanged: Authorization" in text
    assert "planted-canary" not in text


def test_what_is_as_the_default_says_is_not_stored(admin: Client) -> None:
    assert admin.post("/destinations/http/", TYPED).status_code == 302
    assert stored().config == {"url": URL}
    assert (stored().secrets, stored().max_rate_per_second) == ({}, None)


def test_no_header_of_the_message_need_be_copied(admin: Client) -> None:
    admin.post("/destinations/http/", TYPED | {"copy_headers": ""})
    assert stored().config == {"url": URL, "copy_headers": []}
    assert COPIED not in page(admin, "/destinations/http/?name=hooks")


@pytest.fixture
def hooks(db: None) -> str:
    """Make an HTTP destination in which everything is set; return the path of its form."""
    config = {"url": URL, "method": "PATCH", "headers": {"X-A": "1"}, "timeout_ms": 900, "concurrency": 3}
    more = {"verify_tls": False, "copy_headers": [], "crash_on": "connection_lost"}
    save_destination(
        "hooks", kind="http", config=config | more, secrets=SECRET, max_rate_per_second=0.5, principal=SYSTEM
    )
    return "/destinations/http/?name=hooks"


def shown(name: str) -> DestinationRow:
    return get_destination(name, principal=SYSTEM)


def sent(form: HttpForm | HandlerForm) -> dict[str, Any]:
    """Return what a browser sends of a form in which nothing was changed."""
    values = {field.html_name: field.value() for field in form if field.name != "secrets"}
    return {name: value for name, value in values.items() if value not in (None, False)}


def test_a_form_that_is_sent_as_it_was_shown_changes_nothing(admin: Client, hooks: str) -> None:
    before = stored()
    assert admin.post(hooks, sent(HttpForm(row=shown("hooks")))).status_code == 302
    after = stored()
    assert (after.config, after.secrets, after.max_rate_per_second) == (before.config, SECRET, 0.5)
    assert after.version == before.version + 1


def test_secret_headers_stay_are_replaced_and_are_forgotten(admin: Client, hooks: str) -> None:
    assert admin.post(hooks, TYPED | {"version": "1"}).status_code == 302
    assert stored().secrets == SECRET
    assert admin.post(hooks, TYPED | {"version": "2", "secrets": "X-Api-Key: other"}).status_code == 302
    assert stored().secrets == {"X-Api-Key": "other"}
    assert admin.post(hooks, TYPED | {"version": "3", "forget_secrets": "on"}).status_code == 302
    assert stored().secrets == {}


def test_a_form_of_an_older_version_is_refused(admin: Client, hooks: str) -> None:
    assert admin.post(hooks, TYPED | {"version": "1", "name": "another"}).status_code == 302
    answer = admin.post(hooks, TYPED | {"version": "1", "url": "https://other.example.org/"})
    assert answer.status_code == 412
    assert "saved a change" in answer.content.decode()
    assert (stored().name, stored().config) == ("hooks", {"url": URL})


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"url": "https://user:planted-canary@hooks.example.org/"}, "url"),
        ({"url": ""}, "url"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"method": "GET"}, "method"),
        ({"headers": "no colon"}, "headers"),
        ({"headers": "X-A: 1\nX-A: 2"}, "headers"),
        ({"headers": "Host: evil"}, "headers"),
        ({"secrets": "planted-canary"}, "secrets"),
        ({"secrets": "X-A: planted-canary\nX-A: planted-canary"}, "secrets"),
        ({"secrets": "X A: planted-canary"}, "secrets"),
        ({"secrets": "X-A: planted-canary\u00e9"}, "secrets"),
        ({"timeout_ms": "soon"}, "timeout_ms"),
        ({"timeout_ms": "1"}, "timeout_ms"),
        ({"concurrency": "1.5"}, "concurrency"),
        ({"copy_headers": "x y"}, "copy_headers"),
        ({"max_rate_per_second": "0"}, "max_rate_per_second"),
        ({"max_rate_per_second": "nan"}, "max_rate_per_second"),
    ],
)
def test_a_mistake_is_shown_at_its_field_and_no_secret_is_repeated(
    typed: dict[str, str], field: str, admin: Client
) -> None:
    answer = admin.post("/destinations/http/", TYPED | typed)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert f'id="{field}_error"' in text
    assert text.count('_error"') == 2, "the message, and the field that it describes"
    assert "planted-canary" not in text.replace("user:planted-canary@", "")
    assert not Destination.objects.exists()


def test_a_destination_in_a_forbidden_network_is_refused(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POISONADMIN_ALLOW_LOOPBACK", raising=False)
    answer = admin.post("/destinations/http/", TYPED | {"url": "http://169.254.169.254/latest"})
    assert answer.status_code == 422
    assert not Destination.objects.exists()


def test_a_name_is_taken_once(admin: Client, hooks: str) -> None:
    answer = admin.post("/destinations/http/", TYPED)
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "already" in text
    assert 'id="name_error"' in text
    assert stored().version == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "This is required."),
        ("  ", "This is required."),
        ("x" * 101, "at most 100 characters"),
        ("a/b", "May hold no slash"),
        (".", "May not be . or .."),
        ("..", "May not be . or .."),
        ("a\u202eb", "only printable characters"),
    ],
)
def test_a_name_s_mistake_says_which(name: str, said: str, admin: Client) -> None:
    answer = admin.post("/destinations/http/", TYPED | {"name": name})
    assert answer.status_code == 422
    assert said in answer.content.decode()


def test_all_mistakes_of_an_http_destination_are_shown_at_once(admin: Client) -> None:
    wrong = {
        "name": "a/b", "url": "ftp://x", "method": "GET", "headers": "Host: evil", "timeout_ms": "soon",
        "concurrency": "0", "max_rate_per_second": "0", "copy_headers": "x y",
    }  # fmt: skip
    text = admin.post("/destinations/http/", TYPED | wrong).content.decode()
    for field in wrong:
        assert f'id="{field}_error"' in text, field
    assert "timeout_ms:" not in text
    assert "once more" not in text, "no secret was typed"
    typed = admin.post("/destinations/http/", TYPED | wrong | {"secrets": "X-A: planted-canary"}).content.decode()
    assert "type once more:" in typed
    assert 'href="#secrets">Secret headers' in typed


def test_all_mistakes_of_a_handler_are_shown_at_once(admin: Client, handlers: None) -> None:
    wrong = {"name": "a/b", "callable": "orders", "memory_mb": "1", "cpu_seconds": "long", "concurrency": "0"}
    text = admin.post("/destinations/handler/", wrong).content.decode()
    for field in wrong:
        assert f'id="{field}_error"' in text, field


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let handlers be in a directory that has one."""
    (tmp_path / "orders.py").touch()
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))


def test_every_setting_of_a_handler_can_be_set(admin: Client, handlers: None) -> None:
    typed = {
        "name": "orders", "callable": "orders:handle", "memory_mb": "96", "cpu_seconds": "1.5", "timeout_ms": "2000",
        "concurrency": "3", "max_rate_per_second": "10",
    }  # fmt: skip
    assert admin.post("/destinations/handler/", typed).status_code == 302
    row = stored()
    assert row.config == {
        "callable": "orders:handle", "memory_mb": 96, "cpu_seconds": 1.5, "timeout_ms": 2000, "concurrency": 3
    }  # fmt: skip
    assert set(row.config) == {"callable", *HANDLER}
    assert (row.kind, row.max_rate_per_second, row.secrets) == ("handler", 10.0, {})
    assert admin.post("/destinations/handler/?name=orders", sent(HandlerForm(row=shown("orders")))).status_code == 302
    assert (stored().config, stored().version) == (row.config, 2)
    changed = {"callable": "orders:other", "version": "2"}
    assert admin.post("/destinations/handler/?name=orders", changed | {"version": ""}).status_code == 412
    assert admin.post("/destinations/handler/?name=orders", changed).status_code == 302
    assert stored().config == {"callable": "orders:other"}
    assert admin.post("/destinations/handler/?name=orders", changed).status_code == 412


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"callable": "orders"}, "callable"),
        ({"callable": "elsewhere:handle"}, "callable"),
        ({"callable": "os:system"}, "callable"),
        ({"memory_mb": "1"}, "memory_mb"),
        ({"cpu_seconds": "long"}, "cpu_seconds"),
    ],
)
def test_a_handler_that_cannot_run_is_refused_at_its_field(
    typed: dict[str, str], field: str, admin: Client, handlers: None
) -> None:
    answer = admin.post("/destinations/handler/", {"name": "orders", "callable": "orders:handle"} | typed)
    assert answer.status_code == 422
    assert f'id="{field}_error"' in answer.content.decode()
    assert not Destination.objects.exists()


def test_a_broker_destination_is_made_and_changed_by_its_form(admin: Client) -> None:
    typed = {"name": "back", "kind": "rabbitmq", "url": BROKER, "verify_tls": "true", **LOGIN, "timeout_ms": "5000"}
    answer = admin.post("/destinations/broker/", typed)
    assert (answer.status_code, answer["Location"]) == (302, "/destinations/one/?name=back")
    assert Destination.objects.get().config == {"url": BROKER, "timeout_ms": 5000}
    text = page(admin, answer["Location"])
    assert "where each message came from" in text
    assert "planted-canary" not in text + page(admin, "/destinations/broker/?name=back")
    changed = {**typed, "username": "", "password": "", "queue": "orders", "version": "1"}
    assert admin.post("/destinations/broker/?name=back", changed).status_code == 302
    row = Destination.objects.get()
    assert (row.config["queue"], row.secrets) == ("orders", LOGIN)
    assert admin.post("/destinations/broker/", typed).status_code == 409
    assert (
        admin.post("/destinations/broker/?name=back", {**changed, "exchange": "x", "version": "2"}).status_code == 422
    )


def test_a_destination_has_the_form_of_its_kind(admin: Client, operator_browser: Client, hooks: str) -> None:
    for path in ("/destinations/handler/?name=hooks", "/destinations/broker/?name=hooks"):
        assert admin.get(path).status_code == 400
        assert admin.post(path, {}).status_code == 400
    assert f'href="{hooks}"' in page(admin, "/destinations/one/?name=hooks")
    assert f'href="{hooks}"' not in page(operator_browser, "/destinations/one/?name=hooks")
    for path in ("/destinations/http/", "/destinations/handler/", "/destinations/broker/"):
        assert f'href="{path}"' in page(admin, "/destinations/")
        assert f'href="{path}"' not in page(operator_browser, "/destinations/")


def test_an_administrator_of_some_addresses_cannot_save_one(admin: Client) -> None:
    Access.objects.update(address_patterns=["orders.#"])
    assert admin.post("/destinations/http/", TYPED).status_code == 403
    assert not Destination.objects.exists()


def test_an_administrator_of_some_addresses_keeps_their_destinations(admin: Client, handlers: None) -> None:
    Access.objects.update(address_patterns=["orders.#"])
    assert "Add HTTP destination" in page(admin, "/destinations/")
    assert "Add handler" not in page(admin, "/destinations/"), "a handler runs code here"
    assert admin.post("/destinations/http/", TYPED | {"owner": "orders.#"}).status_code == 302
    assert (stored().owner, stored().name) == ("orders.#", "hooks")
    for path in ("/destinations/", "/destinations/one/?name=hooks", "/destinations/http/?name=hooks"):
        assert "orders.#" in page(admin, path)
    wrong = admin.post("/destinations/http/?name=hooks", TYPED | {"owner": "orders.#.x y", "version": "1"})
    assert wrong.status_code == 422
    given_away = admin.post("/destinations/http/?name=hooks", TYPED | {"owner": "#", "version": "1"})
    assert given_away.status_code == 403
    changed = admin.post("/destinations/http/?name=hooks", TYPED | {"owner": "orders.eu", "version": "1"})
    assert (changed.status_code, stored().owner) == (302, "orders.eu")
    typed = {"name": "code", "callable": "orders:handle", "owner": "orders.#"}
    assert admin.post("/destinations/handler/", typed).status_code == 403
    Destination.objects.update(owner="#")
    assert admin.get("/destinations/http/?name=hooks").status_code == 404
    taken = admin.post("/destinations/http/", TYPED)
    assert (taken.status_code, "already" in taken.content.decode()) == (403, False)
