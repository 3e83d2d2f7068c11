"""What the preview says of the places that messages would go to: who may see them, what waits there, which rules."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.addresses.commands import pause
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.preview import OperationPreview, Target, WaitsFor, preview
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from tests.fixtures.api import Caller, take, take_dead
from tests.fixtures.delivery import make_destination
from tests.fixtures.pages import html_of
from tests.rules.ruled import rule

pytestmark = pytest.mark.django_db
ORDERS = principal("kim", Role.OPERATOR, ["orders.#"])
REDIRECT, NEVER_NAMED = OperationAction.REDIRECT, "orders.repaired"


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver to a destination that is kept for every address."""
    make_destination()


def foresee(*ids: int, action: OperationAction = OperationAction.APPROVE, to: str | None = None) -> OperationPreview:
    selection = get_selection(freeze(ids=list(ids), principal=SYSTEM), principal=SYSTEM)
    return preview(selection, action, principal=SYSTEM, params={"address": to} if to else None)


def shown_page(browser: Client, *ids: int) -> str:
    selection = freeze(ids=list(ids), principal=SYSTEM)
    page = browser.get(f"/operations/selections/{selection}/?action=approve")
    return " ".join(html_of(page).split())


@pytest.mark.parametrize(("action", "to"), [(OperationAction.APPROVE, None), (REDIRECT, NEVER_NAMED)])
def test_a_destination_out_of_scope_is_not_named(action: OperationAction, to: str | None) -> None:
    Destination.objects.update(max_rate_per_second=0.5)
    selection = get_selection(freeze(ids=[take_dead()], principal=ORDERS), principal=ORDERS)
    params = {"address": to} if to else None
    found = preview(selection, action, principal=ORDERS, params=params)
    assert found.targets == [Target(to or "orders.eu", None, True, None, 1)]
    assert found.duration is None
    own = preview(selection, action, principal=ORDERS, params=params, pace=Pace(1.0)).duration
    assert own is not None
    assert (own.seconds, own.destination) == (1.0, None)
    Destination.objects.update(owner="orders.eu")
    found = preview(selection, action, principal=ORDERS, params=params)
    assert [one.destination for one in found.targets] == ["shop"]
    assert found.duration is not None
    assert found.duration.destination == "shop"


def test_nor_is_it_over_the_api(outsider: Caller) -> None:
    save_policy("elsewhere.#", preset=None, settings={}, destination="shop", principal=SYSTEM)
    message = take_dead("elsewhere.x")
    Destination.objects.update(is_enabled=False)
    selection = outsider.post("selections/", {"ids": [str(message)]}).json()["id"]
    [target] = outsider.get(f"selections/{selection}/preview/?action=approve").json()["targets"]
    assert (target["destination"], target["has_destination"], target["waits"]) == (None, True, "destination_disabled")


def test_nor_is_it_on_the_page(browser_of: Callable[[str], Client]) -> None:
    save_policy("elsewhere.#", preset=None, settings={}, destination="shop", principal=SYSTEM)
    message = take_dead("elsewhere.x")
    Destination.objects.update(is_enabled=False)
    page = shown_page(browser_of("outsider"), message)
    assert "a destination outside your scope" in page
    assert "its destination is switched off. Switch the destination on" in page
    assert "shop" not in page
    page = shown_page(browser_of("operator"), message)
    assert 'href="/destinations/one/?name=shop">Switch the destination on</a>' in page


@pytest.mark.parametrize(("action", "to"), [(OperationAction.APPROVE, None), (REDIRECT, "orders.eu")])
def test_what_would_wait_is_accepted_and_said(action: OperationAction, to: str | None) -> None:
    message = take_dead()

    def waits() -> WaitsFor | None:
        found = foresee(message, action=action, to=to)
        assert found.accepted == 1
        return found.targets[0].waits

    assert waits() is None
    Destination.objects.update(is_enabled=False)
    assert waits() == WaitsFor.DESTINATION_DISABLED
    pause("orders.eu", principal=SYSTEM, reason="r")
    assert waits() == WaitsFor.ADDRESS_PAUSED
    Address.objects.update(status="STOPPED")
    assert waits() == WaitsFor.ADDRESS_STOPPED


def test_an_address_that_nobody_has_named_waits_for_its_destination_only() -> None:
    message = take_dead()
    pause("orders.eu", principal=SYSTEM, reason="r")
    assert foresee(message, action=REDIRECT, to=NEVER_NAMED).targets[0].waits is None
    Destination.objects.update(is_enabled=False)
    assert foresee(message, action=REDIRECT, to=NEVER_NAMED).targets[0].waits == WaitsFor.DESTINATION_DISABLED


def test_the_page_leads_to_the_paused_address(operator_browser: Client) -> None:
    message = take_dead()
    pause("orders.eu", principal=SYSTEM, reason="r")
    page = shown_page(operator_browser, message)
    assert "They will wait: the address is paused." in page
    assert 'href="/addresses/one/?name=orders.eu">Resume the address</a>' in page


def test_what_is_delivered_now_goes_where_its_own_address_delivers() -> None:
    elsewhere = take_dead("elsewhere.x")
    message = take()
    Message.objects.filter(id=message).update(
        original_address_id=Message.objects.values_list("address_id", flat=True).get(id=elsewhere)
    )
    found = foresee(message, action=OperationAction.DELIVER_NOW)
    assert found.targets == [Target("orders.eu", "shop", True, None, 1)]
    assert foresee(message, action=OperationAction.QUARANTINE).targets == [Target("orders.eu", None, False, None, 1)]


def test_the_rules_that_may_decide_before_delivery_are_named(admin: Caller, operator_browser: Client) -> None:
    message = take_dead()
    rule("orders only", {"address": "orders.#", "size": {"min": 1}}, "reject")
    rule("everywhere", {"size": {"min": 1}}, "discard")
    rule("others", {"address": "returns.#"}, "reject")
    rule("away", {"address": "orders.#"}, {"do": "redirect", "address": "orders.eu"})
    rule("off", {"address": "orders.#"}, "discard", is_on=False)
    rule("after", {"address": "orders.#"}, "park", stage="after")
    selection = admin.post("selections/", {"ids": [str(message)]}).json()["id"]
    answer = admin.get(f"selections/{selection}/preview/?action=approve").json()
    assert answer["rules"] == ["orders only", "everywhere"]
    assert "The rules orders only, everywhere decide before each delivery" in shown_page(operator_browser, message)
    found = get_selection(int(selection), principal=ORDERS)
    assert preview(found, OperationAction.APPROVE, principal=ORDERS).rules == ["orders only"]
    assert foresee(message, action=REDIRECT, to="orders.us").rules == ["orders only", "everywhere", "away"]
    assert foresee(message, action=OperationAction.FAIL).rules == []
    assert foresee(take(), action=OperationAction.DELIVER_NOW).rules == ["orders only", "everywhere"]
