"""Decisions that move something: where a message goes must be in scope, or there is no such message."""

from datetime import UTC, datetime
from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM, Permission, Role, principal
from poisonadmin.groups.queries import groups
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures import decisions
from tests.fixtures.api import Caller, make_user, take, take_dead

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHY = {"reason": "because"}
LIMITED = principal("kim", Role.OPERATOR, ["a.dlq", "elsewhere.#"])


@pytest.fixture
def limited() -> Caller:
    """Return an operator who sees the dead-letter queue, and not where its messages come from."""
    made = create_token(
        make_user("kim", Role.OPERATOR, ["a.dlq", "elsewhere.#"]), "t", scopes=list(Permission), by="test"
    )
    return Caller(made.text)


def as_it_is(message_id: int) -> tuple[Any, ...]:
    row = Message.objects.get(id=message_id)
    states = History.objects.filter(message_id=message_id).count()
    return row.state, row.address_id, row.original_address_id, row.failure_count, states, Audit.objects.count()


@pytest.mark.parametrize("action", ["return", "approve"])
def test_a_message_goes_to_no_address_out_of_scope(action: str, orders_destination: None, limited: Caller) -> None:
    message = take_dead("a.dlq", original_address="orders.eu")
    assert limited.get(f"messages/{message}/").status_code == 200
    before = as_it_is(message)
    answer = limited.post(f"messages/{message}/{action}/", WHY)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    unknown = limited.post(f"messages/{message + 1000}/{action}/", WHY)
    assert answer.json()["detail"].replace(str(message), "?") == unknown.json()["detail"].replace(
        str(message + 1000), "?"
    )
    assert as_it_is(message) == before


def test_it_is_refused_in_any_state_and_whether_its_address_delivers_or_not(limited: Caller) -> None:
    """Else the answer would say what is set up out of scope, or how large a message it takes."""
    message = take_dead("a.dlq", original_address="orders.eu")
    decide = decisions.return_to_original
    for state in ("NDLV", "TBDL", "FAIL"):
        Message.objects.filter(id=message).update(state=state, due_at=NOW if state == "TBDL" else None)
        assert decide([message], principal=LIMITED, reason="r").refused == {message: "not_found"}
    assert decide([message], principal=SYSTEM, reason="r").refused == {message: "FAIL"}


def test_some_of_many_are_left_alone(orders_destination: None) -> None:
    save_policy("elsewhere.#", preset=None, settings={}, destination="shop", principal=SYSTEM)
    out = take_dead("a.dlq", original_address="orders.eu")
    back = take_dead("a.dlq", original_address="elsewhere.x")
    decided = decisions.approve([out, back], principal=LIMITED, reason="r")
    assert (decided.changed, decided.refused) == ((back,), {out: "not_found"})


def test_what_moves_nothing_is_decided_where_the_message_is(limited: Caller) -> None:
    message = take_dead("a.dlq", original_address="orders.eu")
    for action in ("fail", "restore"):
        assert limited.post(f"messages/{message}/{action}/", WHY).status_code == 200


def test_a_failure_group_counts_the_failures_in_scope(limited: Caller) -> None:
    mine = take_dead("elsewhere.x", failed_at="2026-01-02T00:00:00Z")
    for at in ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"):
        take_dead("orders.eu", failed_at=at)
    first = Attempt.objects.get(message_id=mine)
    Attempt.objects.filter(message_id=mine).update(attempt_number=0)
    [group] = groups.list_groups(principal=LIMITED).results
    [whole] = groups.list_groups(principal=SYSTEM).results
    assert (whole.failures, whole.first_at.day, whole.last_at.day) == (3, 1, 3)
    assert (group.failures, group.first_at, group.last_at) == (1, first.finished_at, first.finished_at)
    assert vars(group).items() <= vars(groups.get_group(group.id, principal=LIMITED)).items()
    assert limited.get(f"groups/{group.id}/").json()["failures"] == 1


@pytest.mark.parametrize("again", ["another token", "the same name"])
def test_an_idempotency_key_belongs_to_the_token_that_it_came_with(again: str) -> None:
    """A narrow token would else be given what a wide one of the same name was answered."""
    take("orders.eu")
    body = {"address": "elsewhere.x", "payload": "x"}
    user = make_user("ann", Role.ADMIN, [])
    first = create_token(user, "ci", scopes=list(Permission), by="test")
    Caller(first.text).post("messages/", body, Idempotency_Key="k")
    name = "other" if again == "another token" else "ci"
    second = create_token(user, name, scopes=list(Permission), patterns=["elsewhere.#"], by="test")
    answer = Caller(second.text).post("messages/", body, Idempotency_Key="k")
    assert "Idempotent-Replayed" not in answer
    assert Message.objects.filter(address__name="elsewhere.x").count() == 2
    assert "Idempotent-Replayed" in Caller(first.text).post("messages/", body, Idempotency_Key="k")


def test_the_key_of_a_session_belongs_to_its_user(client: Any) -> None:
    body = {"address": "elsewhere.x", "payload": "x"}
    user = make_user("ann", Role.ADMIN, [])
    tokens = create_token(user, "ci", scopes=list(Permission), by="test")
    Caller(tokens.text).post("messages/", body, Idempotency_Key="k")
    client.force_login(make_user("ann via ci", Role.ADMIN, []))
    sent = {"content_type": "application/json", "headers": {"Idempotency-Key": "k"}}
    first = client.post("/api/v1/messages/", body, **sent)
    assert (first.status_code, "Idempotent-Replayed" in first) == (201, False)
    assert "Idempotent-Replayed" in client.post("/api/v1/messages/", body, **sent)
    assert Message.objects.count() == 2
