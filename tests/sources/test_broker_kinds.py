"""Each kind of broker is declared once: models agree with the declarations, and nothing else lists kinds."""

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from poisonadmin.brokers.domain.broker_kinds import BROKERS, kind_of_url
from poisonadmin.brokers.domain.broker_urls import parse_broker_url
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.destinations.commands import save_destination
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import DESTINATION_KINDS, Destination
from poisonadmin.store.models.intake import SOURCE_KINDS
from poisonadmin.store.models.message import Message
from tests.fixtures.pages import waiting
from workers.brokers.contract import adapter

ROOT: Path = settings.BASE_DIR
DECLARED = "poisonadmin/brokers/domain/broker_kinds.py"
# Beside the declarations: a preset of policies; libraries whose frames are not the user's.
ALLOWED = {
    DECLARED,
    "poisonadmin/policies/domain/policy.py",
    "poisonadmin/groups/domain/stacks.py",
}
KINDS = re.compile(rf"\b({'|'.join(BROKERS)})\b", re.IGNORECASE)


def kinds_in_python(text: str) -> set[str]:
    """Return the kinds that the code names, in texts, names and attributes; docstrings and comments do not count."""
    tree = ast.parse(text)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found += KINDS.findall(node.value)
        elif isinstance(node, ast.Name):
            found += KINDS.findall(node.id)
        elif isinstance(node, ast.Attribute):
            found += KINDS.findall(node.attr)
    return {kind.lower() for kind in found}


def named_kinds() -> dict[str, set[str]]:
    """Return the files that name a kind of broker without being about it."""
    modules = [*(ROOT / "poisonadmin").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]
    pages = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static" / "js").rglob("*.js")]
    found = {
        path: kinds_in_python(path.read_text(encoding="utf-8")) for path in modules if "migrations" not in path.parts
    }
    found |= {path: set(KINDS.findall(path.read_text(encoding="utf-8"))) for path in pages}
    return {
        str(path.relative_to(ROOT)): kinds
        for path, kinds in found.items()
        if kinds
        and not (set(path.relative_to(ROOT / "workers").parts) & set(BROKERS) if "workers" in path.parts else ())
    }


def test_no_other_file_names_a_kind_of_broker() -> None:
    assert {path: kinds for path, kinds in named_kinds().items() if path not in ALLOWED} == {}


def test_what_is_allowed_to_name_kinds_still_does() -> None:
    assert set(named_kinds()) == ALLOWED


def test_the_models_offer_the_declared_kinds_and_their_own() -> None:
    assert set(SOURCE_KINDS) == {*BROKERS, "directory"}
    assert set(DESTINATION_KINDS) == {*BROKERS, "http", "handler"}


@pytest.mark.parametrize("kind", BROKERS)
def test_a_declaration_is_whole(kind: str) -> None:
    broker = BROKERS[kind]
    assert adapter(kind)
    assert parse_broker_url(kind, broker.example)
    assert {kind_of_url(f"{scheme}://host") for scheme in broker.schemes} == {kind}
    assert broker.tls_schemes < set(broker.schemes)
    for setting in (*broker.source, *broker.destination):
        assert setting.label
        assert setting.default is None or setting.check(setting.default) == setting.default


@pytest.mark.django_db
@pytest.mark.parametrize("kind", BROKERS)
def test_a_message_that_a_broker_has_taken_is_delivered_to_the_broker(kind: str, orders_destination: None) -> None:
    message = waiting("orders.eu")
    config = {"url": BROKERS[kind].example}
    save_destination("back", kind=kind, config=config, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    Message.objects.filter(id=message.id).update(state="DLVD", due_at=None, attempt_number=1)
    now = timezone.now()
    Attempt.objects.create(
        message_id=message.id,
        attempt_number=1,
        started_at=now,
        finished_at=now,
        outcome="delivered",
        destination_id=Destination.objects.get(name="back").id,
    )
    assert get_message(message.id, principal=SYSTEM).delivered_to == "broker"
