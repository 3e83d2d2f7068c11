"""People with their tokens, and a small world of objects for them to ask for."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from poisonadmin.domain.access import SYSTEM, Permission, Role
from poisonadmin.domain.envelope import parse_envelope
from poisonadmin.operations import decide, tokens
from poisonadmin.operations.broker_looks import look_at_source
from poisonadmin.operations.configure import save_destination, save_policy
from poisonadmin.operations.dry_runs import request_dry_run
from poisonadmin.operations.intake import accept
from poisonadmin.operations.poison_list import Report, report
from poisonadmin.operations.restart_jobs import save_restart_job
from poisonadmin.operations.rules import RuleFields, create_rule
from poisonadmin.operations.source_setup import save_source
from poisonadmin.store.models import Access, FailureGroup, Job, Message, PolicyRow, RejectedLine
from poisonadmin.store.models.broker_look import LookPurpose
from tests.api.live import running_web

API = "/api/v1"
ROLES: dict[str, tuple[Role, list[str]]] = {
    "viewer": (Role.VIEWER, []),
    "operator": (Role.OPERATOR, []),
    "admin": (Role.ADMIN, []),
    "outsider": (Role.ADMIN, ["elsewhere.#"]),
}


@dataclass(frozen=True)
class Caller:
    """Sends requests as somebody; `token` None: as nobody."""

    token: str | None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        """Send a request; a body that is no bytes goes as JSON."""
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = headers.pop("Content_Type", "application/json")
        address = path if path.startswith("/") else f"{API}/{path}"
        return Client(raise_request_exception=False).generic(
            method, address, content, content_type=kind, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def get(self, path: str, **headers: str) -> HttpResponse:
        """GET."""
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        """POST."""
        return self.ask("POST", path, {} if body is None else body, **headers)


def make_user(name: str, role: Role, patterns: list[str]) -> User:
    """Create a user with a role."""
    user = User.objects.create(username=name)
    Access.objects.create(user=user, role=role, address_patterns=patterns)
    return user


def caller_of(name: str) -> Caller:
    """Return a caller with a fresh user of that role and a token that has every scope."""
    role, patterns = ROLES[name]
    made = tokens.create(make_user(name, role, patterns), "test", scopes=list(Permission), by="test")
    return Caller(made.text)


@pytest.fixture
def admin(db: None) -> Caller:
    """Return an administrator."""
    return caller_of("admin")


@pytest.fixture
def operator(db: None) -> Caller:
    """Return an operator."""
    return caller_of("operator")


@pytest.fixture
def viewer(db: None) -> Caller:
    """Return a viewer."""
    return caller_of("viewer")


@pytest.fixture
def outsider(db: None) -> Caller:
    """Return an administrator of other addresses only."""
    return caller_of("outsider")


Take = Callable[..., int]


def take(address: str = "orders.eu", payload: Any = "body", **fields: Any) -> int:
    """Take a message in and return its id."""
    envelope = parse_envelope({"address": address, "payload": payload, **fields})
    return accept(envelope, principal=SYSTEM, received_by="test").id


def take_dead(address: str = "orders.eu", **dead_letter: Any) -> int:
    """Take a dead letter in and return its id."""
    described = {"reason": "gave up", "exception_class": "TimeoutError", "exception_message": "no answer in 30 s"}
    return take(address, dead_letter=described | dead_letter)


def make_shop() -> None:
    """Create a destination and the policy that sends `orders.#` there."""
    save_destination(
        "shop",
        kind="http",
        config={"url": "http://127.0.0.1:9/"},
        secrets={"Authorization": "Basic canary-secret"},
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    save_policy("orders.#", preset=None, settings={"redelivery_delay": 1000}, destination="shop", principal=SYSTEM)


@pytest.fixture
def shop(db: None) -> None:
    """Create a destination and the policy that sends `orders.#` there."""
    make_shop()


@pytest.fixture
def world(shop: None) -> dict[str, Any]:
    """Return the ids of one object of each kind, all on addresses that an outsider does not see."""
    waiting, delivered, undecided, given_up, moved = (
        take(),
        take(),
        take_dead(),
        take_dead(),
        take_dead("parked.orders", original_address="orders.eu"),
    )
    Message.objects.filter(id=delivered).update(state="DLVD", attempt_number=1)
    decide.mark_fail([given_up], principal=SYSTEM, reason="test")
    source = save_source("inbox", kind="directory", config={"path": "/srv/inbox"}, principal=SYSTEM)
    broker = save_source(
        "dead-letters",
        kind="rabbitmq",
        config={"url": "amqp://rabbit.example.org", "queues": ["orders.dlq"]},
        secrets={"username": "drain", "password": "canary-secret"},
        principal=SYSTEM,
    )
    rejected = RejectedLine.objects.create(
        source=source, batch="file:1:0", line=3, code="invalid_json", detail="x", raw=b"{"
    )
    job = Job.objects.create(kind="ingest", requested_by="test")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO node (name, host, pid, claim_id, shard, lease_until) VALUES ('n', 'h', 1, 1, 0, now())"
        )
    entry = report(Report("orders.eu", "place 13", "it cannot be read"), principal=SYSTEM)
    restart_job = save_restart_job(
        "weekly",
        schedule="0 4 * * 1",
        filter={"address": ["orders.#"]},
        include_blacklisted=False,
        max_restarts=1,
        is_enabled=True,
        principal=SYSTEM,
    )
    rule = create_rule("before", RuleFields("no tests", {"address": "orders.#"}, {"do": "reject"}), principal=SYSTEM)
    request_dry_run(rule.id, principal=SYSTEM)
    return {
        "restart_job": restart_job.id,
        "rule": rule.id,
        "entry": entry,
        "waiting": waiting,
        "delivered": delivered,
        "undecided": undecided,
        "given_up": given_up,
        "moved": moved,
        "group": FailureGroup.objects.get().id,
        "policy": PolicyRow.objects.get().id,
        "source": source.id,
        "broker": broker.id,
        "look": look_at_source(broker.id, LookPurpose.CONNECTION, principal=SYSTEM),
        "rejected": rejected.id,
        "job": job.id,
    }


@pytest.fixture
def web(transactional_db: None) -> Iterator[tuple[str, psutil.Process]]:
    """Run the web process on the test's database; yield its address and the process."""
    with running_web() as web:
        yield web
