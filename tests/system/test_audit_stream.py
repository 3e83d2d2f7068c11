"""The audit log as lines of the Elastic Common Schema: each entry once it is committed, and what was refused."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from poisonadmin.core.commands import audit
from poisonadmin.core.domain import ecs
from poisonadmin.environment import Environment
from poisonadmin.system.commands.audit_seals import seal_audit
from tests.fixtures.api import Caller

pytestmark = pytest.mark.django_db


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Switch the stream on; return its documents as they come."""
    found: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(record.getMessage()))

    stream = logging.getLogger(ecs.LOGGER)
    monkeypatch.setattr(stream, "handlers", [Kept()])
    monkeypatch.setattr(stream, "level", logging.INFO)
    stream.manager._clear_cache()  # type: ignore[attr-defined]
    return found


def test_each_entry_is_a_line_when_it_is_sealed(lines: list[dict[str, Any]]) -> None:
    audit.record("ann", "policy.saved", "policy", "orders.#", note="why", details={"a": 1})
    audit.record("bob", "user.login_failed", "user", "bob")
    assert lines == []
    seal_audit(wait_seconds=0)
    seal_audit(wait_seconds=0)
    assert [one["event"]["action"] for one in lines] == ["policy.saved", "user.login_failed"]
    first, second = lines
    assert first["user"] == {"name": "ann"}
    assert first["poisonadmin"]["details"] == {"a": 1}
    assert first["event"]["category"] == ["configuration"]
    assert (second["event"]["category"], second["event"]["outcome"]) == (["authentication"], "failure")
    assert first["ecs"]["version"] == ecs.VERSION
    assert first["@timestamp"].endswith("+00:00")


def test_what_is_refused_is_a_line_at_once(
    lines: list[dict[str, Any]], viewer: Caller, page_settings: None, operator_browser: Client
) -> None:
    viewer.get("accounts/")
    operator_browser.get("/people/")
    Client().get("/people/")
    seen = [(one["user"]["name"], one["poisonadmin"]["path"], one["event"]["outcome"]) for one in lines]
    assert seen == [("viewer via test", "/api/v1/accounts/", "failure"), ("operator", "/people/", "failure")]


def test_it_goes_to_a_file_or_to_standard_output_or_nowhere(tmp_path: Path) -> None:
    def handler(target: str) -> dict[str, Any]:
        return Environment({"POISONADMIN_AUDIT_LOG": target}).audit_handler("POISONADMIN_AUDIT_LOG")

    assert handler("")["class"] == "logging.NullHandler"
    assert handler("stdout")["stream"] == "ext://sys.stdout"
    assert handler(str(tmp_path / "audit.json"))["filename"] == str(tmp_path / "audit.json")
    for wrong in ("audit.json", str(tmp_path / "no" / "audit.json")):
        with pytest.raises(ImproperlyConfigured, match="must be stdout, or an absolute path"):
            handler(wrong)
