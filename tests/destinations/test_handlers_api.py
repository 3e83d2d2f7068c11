"""Handler destinations: who may define one, and what is said of one that cannot run."""

from pathlib import Path
from typing import Any

import pytest

from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from tests.fixtures.api import Caller


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of handlers, with a module that would say so if it were imported."""
    (tmp_path / "orders.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    return tmp_path


def handler(callable_: Any = "orders:handle", **config: Any) -> dict[str, Any]:
    """Return the body of a new destination."""
    return {"name": "orders", "kind": "handler", "config": {"callable": callable_, **config}}


def test_an_administrator_defines_a_handler(handlers: Path, admin: Caller) -> None:
    answer = admin.post("destinations/", handler(memory_mb=256, cpu_seconds=1.5, timeout_ms=2000, concurrency=4))
    config = {"callable": "orders:handle", "memory_mb": 256, "cpu_seconds": 1.5, "timeout_ms": 2000, "concurrency": 4}
    assert (answer.status_code, answer.json()["kind"], answer.json()["config"]) == (201, "handler", config)
    assert Audit.objects.get(action="destination.saved").details == {"owner": "#", "config": config}


def test_nobody_else_does(handlers: Path, operator: Caller, viewer: Caller, outsider: Caller) -> None:
    for caller in (operator, viewer, outsider):
        assert caller.post("destinations/", handler()).status_code == 403
    assert not Destination.objects.exists()


def test_a_destination_is_not_made_a_handler_by_who_may_not(
    handlers: Path, admin: Caller, operator: Caller, orders_destination: None
) -> None:
    body = {"kind": "handler", "config": {"callable": "orders:handle"}}
    assert operator.ask("PUT", "destinations/shop/", body).status_code == 403
    changed = admin.ask("PUT", "destinations/shop/", body).json()
    assert (changed["kind"], changed["secret_names"]) == ("handler", []), "an HTTP destination's secrets are gone"


def test_where_no_handler_can_be_imported_the_variable_is_named(admin: Caller) -> None:
    problem = admin.post("destinations/", handler()).json()
    assert (problem["status"], problem["code"]) == (400, "invalid_destination")
    assert "POISONADMIN_HANDLER_PATH is empty" in problem["detail"]
    assert problem["errors"][0]["field"] == "callable"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (handler("billing:handle"), "callable"),
        (handler("../orders:handle"), "callable"),
        (handler("json:loads"), "callable"),
        (handler(None), "callable"),
        ({**handler(), "config": {}}, "callable"),
        (handler(memory_mb=1), "memory_mb"),
        (handler(cpu_seconds=0), "cpu_seconds"),
        (handler(timeout_ms="long"), "timeout_ms"),
        (handler(concurrency=True), "concurrency"),
        (handler(url="https://hooks.example.org/"), "url"),
        ({**handler(), "secrets": {"Authorization": "x"}}, "secrets"),
    ],
)
def test_a_handler_that_cannot_be_is_refused(body: dict[str, Any], field: str, handlers: Path, admin: Caller) -> None:
    problem = admin.post("destinations/", body).json()
    assert (problem["code"], problem["errors"][0]["field"]) == ("invalid_destination", field)
    assert not Destination.objects.exists()


@pytest.mark.parametrize(("value", "kept"), [(None, None), ("connection_lost", "connection_lost")])
def test_a_lost_connection_may_count_as_a_crash(value: str | None, kept: str | None, admin: Caller) -> None:
    body = {"name": "hooks", "kind": "http", "config": {"url": "https://hooks.example.org/", "crash_on": value}}
    assert admin.post("destinations/", body).json()["config"]["crash_on"] == kept


@pytest.mark.parametrize("value", ["timeout", True, 1, [], {}])
def test_nothing_else_counts_as_a_crash(value: Any, admin: Caller) -> None:
    body = {"name": "hooks", "kind": "http", "config": {"url": "https://hooks.example.org/", "crash_on": value}}
    assert admin.post("destinations/", body).json()["errors"][0]["field"] == "crash_on"
