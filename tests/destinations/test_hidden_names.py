"""A limited reader is told no name of a destination that is kept for others."""

from collections.abc import Sequence

import pytest
from django.db.models.functions import Now
from django.test import Client

from poisonadmin.comparisons.queries.comparisons import FindingRow, get_comparison
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.desk.queries.detail import attempts, get_message
from poisonadmin.policies.queries import resolve_address
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, html_of, make_user

pytestmark = pytest.mark.django_db

LIMITED = principal("kim", Role.VIEWER, ["orders.#"])


@pytest.fixture
def message() -> Message:
    """Return a dead letter on an address of the reader's, which delivers to a destination of others."""
    make_orders_destination()
    letter = dead_letter("orders.eu")
    Attempt.objects.update(destination_id=Destination.objects.get().id)
    return letter


@pytest.mark.parametrize(("owner", "is_seen"), [("#", False), ("bills.#", False), ("orders.#", True)])
def test_its_name_is_in_no_answer(owner: str, is_seen: bool, message: Message) -> None:
    Destination.objects.update(owner=owner)
    name = Destination.objects.get().name if is_seen else None
    found = get_message(message.id, principal=LIMITED)
    assert (found.destination, found.has_destination) == (name, True)
    assert [row.destination for row in attempts(message.id, principal=LIMITED).results] == [name]
    assert [row.destination for row in list_failures(FailureFilter(), principal=LIMITED).results] == [name]
    by_name = FailureFilter(destinations=(Destination.objects.get().name,))
    assert len(list_failures(by_name, principal=LIMITED).results) == (1 if is_seen else 0)
    assert len(list_failures(by_name, principal=SYSTEM).results) == 1
    assert resolve_address("orders.eu", principal=LIMITED).destination == name
    assert resolve_address("orders.eu", principal=SYSTEM).destination is not None


def test_its_name_is_in_no_finding(message: Message) -> None:
    one = {"field": "destination", "operator": "=", "value": "bills-of-others"}
    other = {"field": "header.x", "operator": "=", "value": "1"}
    counts = {"counts": [9, 10, 0, 10], "p_value": 0.001}
    findings = [{"conditions": [one], "also": [], **counts}, {"conditions": [other], "also": [one], **counts}]
    row = LongRun.objects.create(
        kind="compare",
        state="succeeded",
        params={"selection_id": 1, "against": None, "with_payload": False, "address_ids": [message.address_id]},
        position={},
        result={"against": {}, "address_ids": [], "findings": findings},
        requested_by="root",
        ended_at=Now(),
    )

    def found(who: Principal) -> Sequence[FindingRow]:
        result = get_comparison(row.id, principal=who).result
        assert result is not None
        return result.findings

    (finding,) = found(LIMITED)
    assert "bills" not in finding.text
    assert len(found(SYSTEM)) == 2


def test_its_name_is_on_no_page(message: Message, page_settings: None) -> None:
    name = Destination.objects.get().name
    Destination.objects.update(name=f"{name}-of-others", owner="bills.#")
    browser = Client()
    browser.force_login(
        make_user("kim", Role.VIEWER, ["orders.#"]), "allauth.account.auth_backends.AuthenticationBackend"
    )
    for path, said in {
        f"/messages/{message.id}/": "a destination outside your scope",
        "/addresses/": "a destination outside your scope",
        "/addresses/one/?name=orders.eu": "a destination outside your scope",
        "/policies/?address=orders.eu": "nowhere in your scope",
        "/triage/?group_by=failures": "orders.eu",
        "/triage/?group_by=destination": "No destination",
    }.items():
        page = html_of(browser.get(path))
        assert "of-others" not in page, path
        assert said in page, path
