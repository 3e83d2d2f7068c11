"""Releasing a bookmark, and resuming an address without a message, are decisions that may need a sign-off too."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.addresses.commands import AddressStatusConflict, NotOnAddress, pause, resume
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.operations.commands.releases import release_bookmark, resume_without
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.operation import Operation
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures.api import Caller
from tests.fixtures.delivery import enqueue, states
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
OLGA = principal("olga", Role.OPERATOR)


def listed(number: int = 3) -> tuple[int, list[int]]:
    """Return an entry of the poison list, and the messages of its bookmark that it stopped."""
    ids = enqueue(number, bookmark="B1")
    report(Report("orders.eu", "B1", "killed", fatal=True, crash_limit=1), principal=SYSTEM)
    assert states(ids) == ["NDLV"] * number
    return PoisonEntry.objects.get().id, ids


def limit(above: int, action: str | None = None) -> None:
    """Ask for a sign-off above so many messages."""
    save_sign_off_rule("orders.#", action, above=above, principal=SYSTEM)


def consent(operation_id: int) -> None:
    """Have another person consent."""
    selection_hash = get_operation(operation_id, principal=SYSTEM).hash
    sign_off(operation_id, SignOffDecision.CONSENT, selection_hash=selection_hash, reason="seen", principal=SYSTEM)


@pytest.mark.parametrize("action", [None, "release"])
def test_a_bookmark_stays_listed_until_another_person_consents(destination: str, action: str | None) -> None:
    entry, ids = listed()
    limit(2, action)
    waits = release_bookmark(entry, principal=OLGA, reason="mended")
    assert waits is not None
    assert (states(ids), PoisonEntry.objects.get().is_listed) == (["NDLV"] * 3, True)
    assert not Audit.objects.filter(action="poison_entry.released").exists()
    consent(waits)
    assert (states(ids), PoisonEntry.objects.get().is_listed) == (["TBDL"] * 3, False)


def test_below_the_limit_a_bookmark_is_released_at_once_by_an_operation(destination: str) -> None:
    entry, ids = listed()
    limit(3)
    assert release_bookmark(entry, principal=OLGA, reason="mended") is None
    assert (states(ids), PoisonEntry.objects.get().is_listed) == (["TBDL"] * 3, False)
    operation = Operation.objects.get()
    assert (operation.action, operation.count, operation.requested_by) == ("release", 3, "olga")


def test_a_bookmark_of_no_stored_message_is_released_without_a_sign_off(destination: str) -> None:
    limit(0)
    entry = report(Report("orders.eu", "B1", "killed", fatal=True, crash_limit=1), principal=SYSTEM)
    assert release_bookmark(entry, principal=OLGA, reason="mended") is None
    assert not PoisonEntry.objects.get().is_listed


def stopped() -> int:
    """Return a message that waits on an address that is stopped."""
    [message] = enqueue()
    Address.objects.filter(name="orders.eu").update(status="STOPPED", status_message_id=message)
    return message


def test_an_address_stays_stopped_until_another_person_consents_to_the_quarantine(destination: str) -> None:
    message = stopped()
    limit(0, "quarantine")
    waits = resume_without("orders.eu", message, principal=OLGA, reason="it is poison")
    assert waits is not None
    assert (states([message]), Address.objects.get().status) == (["TBDL"], "STOPPED")
    assert not Audit.objects.filter(action="address.on").exists()
    consent(waits)
    assert (states([message]), Address.objects.get().status) == (["NDLV"], "STOPPED")
    resume("orders.eu", principal=OLGA, reason="without it")
    assert Address.objects.get().status == "ON"


def test_messages_that_were_quarantined_so_count_with_the_others_of_the_last_hour(destination: str) -> None:
    limit(1, "quarantine")
    for waits in (False, True):
        message = stopped()
        assert (resume_without("orders.eu", message, principal=OLGA, reason="poison") is not None) is waits


def test_nothing_waits_for_what_cannot_be_done(destination: str) -> None:
    message, [elsewhere] = stopped(), enqueue(address="orders.us")
    limit(0)
    outsider = principal("eve", Role.OPERATOR, ["invoices.#"])
    with pytest.raises(NotFound):
        resume_without("orders.eu", message, principal=outsider, reason="r")
    with pytest.raises(NotOnAddress):
        resume_without("orders.eu", elsewhere, principal=OLGA, reason="r")
    resume("orders.eu", principal=SYSTEM, reason="r")
    with pytest.raises(AddressStatusConflict):
        resume_without("orders.eu", message, principal=OLGA, reason="r")
    assert not Operation.objects.exists()


def test_the_api_names_the_operation_that_waits(destination: str, operator: Caller) -> None:
    entry, _ = listed()
    [message] = enqueue()
    pause("orders.eu", principal=SYSTEM, reason="r")
    limit(0)
    released = operator.post(f"poison-list/{entry}/release/", {"reason": "mended"})
    assert (released.status_code, released.json()["is_listed"]) == (202, True)
    resumed = operator.post("addresses/orders.eu/resume/", {"reason": "poison", "quarantine": str(message)})
    assert (resumed.status_code, resumed.json()["status"]) == (202, "PAUSED")
    places = [answer["Location"].split("/api/v1/")[1] for answer in (released, resumed)]
    assert [operator.get(place).json()["action"] for place in places] == ["release", "quarantine"]


def test_the_pages_say_it_before_and_show_the_operation_after(
    destination: str, browser_of: Callable[[str], Client]
) -> None:
    entry, _ = listed()
    [message] = enqueue()
    pause("orders.eu", principal=SYSTEM, reason="r")
    limit(0)
    browser = browser_of("operator")
    assert "Another person has to sign off" in html_of(browser.post(f"/poison-list/{entry}/release/"))
    released = browser.post(f"/poison-list/{entry}/release/now/", {"reason": "mended"}, follow=True)
    assert "Nothing is done yet: another person has to sign off." in html_of(released)
    form = {"name": "orders.eu", "reason": "poison", "quarantine": str(message)}
    resumed = html_of(browser.post("/addresses/one/resume/now/", form, follow=True))
    assert f"Resume orders.eu once message #{message} is quarantined." in resumed
    assert "Waiting for a sign-off" in resumed
