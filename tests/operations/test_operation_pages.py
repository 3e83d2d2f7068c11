"""Operations in the dashboard: from a list to the ledger, with one reason."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.operation import Operation, OperationResult
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
SELECT = "/operations/select/"


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver."""
    make_orders_destination()


def test_everything_that_matches_is_selected_previewed_and_approved(operator_browser: Client) -> None:
    for _ in range(3):
        take_dead()
    take_dead("elsewhere.x")
    matching = html_of(operator_browser.get("/operations/matching/?state=NDLV"))
    assert "Decide on all 4 that match…" in matching
    answer = operator_browser.post(SELECT, {"query": "?state=NDLV&cursor=abc"})
    page = html_of(operator_browser.get(answer["Location"]))
    assert "4 messages selected" in page
    assert "3 of 4 will be approved" in page
    assert "Choose what elsewhere.x delivers to" in page
    begun = operator_browser.post(answer["Location"], {"reason": "the parser is mended", "rate_per_second": "50"})
    shown = html_of(operator_browser.get(begun["Location"]))
    assert "Approve 4 messages" in shown
    assert "the parser is mended" in shown
    assert "1: its address has no destination" in shown
    operation = Operation.objects.get()
    assert (operation.rate_per_second, operation.requested_by) == (50.0, "operator")
    assert "Approve #" in html_of(operator_browser.get("/operations/"))
    overview = html_of(operator_browser.get("/"))
    assert overview.count('id="decision-') == 1
    assert "Approve: 4 messages</a> by operator" in " ".join(overview.split())


def test_the_reason_is_asked_for_and_what_is_wrong_is_said_at_its_field(operator_browser: Client) -> None:
    take_dead()
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    page = operator_browser.post(f"/operations/selections/{selection}/", {"reason": "", "rate_per_second": "0"})
    assert page.status_code == 422
    assert "This is required." in html_of(page)
    page = operator_browser.post(f"/operations/selections/{selection}/", {"reason": "r", "rate_per_second": "0"})
    assert "Must be from 0.001" in html_of(page)
    assert not Operation.objects.exists()


def test_it_is_paused_at_once_and_cancelled_with_a_reason(operator_browser: Client) -> None:
    take_dead()
    operation = begin(
        freeze({"state": ["NDLV"]}, principal=SYSTEM), OperationAction.APPROVE, reason="r", principal=SYSTEM
    )
    address = f"/operations/{operation}/"
    operator_browser.post(f"{address}pause/")
    assert "Paused" in html_of(operator_browser.get(address))
    operator_browser.post(f"{address}cancel/", {"reason": ""})
    assert Operation.objects.get().state == "paused"
    operator_browser.post(f"{address}cancel/", {"reason": "stop"})
    carry_on()
    page = html_of(operator_browser.get(address))
    assert "Cancelled before delivery" in page
    assert ">Pause<" not in page
    again = operator_browser.post(f"{address}resume/", {"reason": "go"}, follow=True)
    assert "it cannot resume now" in html_of(again)


def test_the_canary_is_shown_as_steps_and_the_ledger_as_a_bar(browser_of: Callable[[str], Client]) -> None:
    for _ in range(13):
        take_dead()
    take_dead("elsewhere.x")
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    pace = Pace(50.0, has_canary=True)
    operation = begin(selection, OperationAction.APPROVE, reason="r", principal=SYSTEM, terms=OperationTerms(pace))
    operator = browser_of("operator")
    page = html_of(operator.get(f"/operations/{operation}/"))
    steps = re.findall(r'<li class="step-(\w+)"[^>]*><strong>(all )?([\d,]+)', page)
    assert steps == [("running", "", "1"), ("waiting", "", "10"), ("waiting", "all ", "3")]
    assert f'href="/operations/{operation}/members/unanswered/" aria-label="14 not answered yet"' in page
    assert "At most 50 deliveries a second; a canary of 1, then 10, then 100" in page
    assert "data-undo title=" in page
    viewed = html_of(browser_of("viewer").get(f"/operations/{operation}/"))
    assert viewed.count('title="For the role operator or') == 2
    operator.post(f"/operations/{operation}/undo/")
    assert Operation.objects.get().state in ("cancelling", "cancelled")


@pytest.mark.parametrize("has_canary", [True, False])
def test_the_time_left_is_said_where_the_pace_so_far_tells_it(operator_browser: Client, has_canary: bool) -> None:
    ids = [take_dead() for _ in range(3)]
    terms = OperationTerms(Pace(50.0, has_canary=has_canary))
    number = begin(
        freeze(ids=ids, principal=SYSTEM), OperationAction.APPROVE, reason="r", principal=SYSTEM, terms=terms
    )
    OperationResult.objects.create(operation_id=number, message_id=ids[0], outcome="delivered")
    page = html_of(operator_browser.get(f"/operations/{number}/"))
    assert "1 of 3 have a result" in page
    assert ("Time left, about" in page) is not has_canary


def test_each_line_of_the_ledger_opens_its_messages(operator_browser: Client) -> None:
    message, nowhere = take_dead(), take_dead("elsewhere.x")
    operation = begin(
        freeze({"state": ["NDLV"]}, principal=SYSTEM), OperationAction.APPROVE, reason="r", principal=SYSTEM
    )
    skipped = html_of(operator_browser.get(f"/operations/{operation}/members/skipped/"))
    assert f"#{nowhere}<" in skipped
    assert f"#{message}<" not in skipped
    assert operator_browser.get(f"/operations/{operation}/members/nonsense/").status_code == 404


def test_a_group_and_an_address_offer_to_decide_on_all(
    operator_browser: Client, browser_of: Callable[[str], Client]
) -> None:
    take_dead()
    for path in ("/triage/?group_by=failure", "/addresses/"):
        assert operator_browser.get(path).status_code == 200
    address = html_of(operator_browser.get("/addresses/one/?name=orders.eu"))
    assert "Decide on all 1 that match…" in address
    assert "Decide on all 1 that match…" not in html_of(browser_of("viewer").get("/addresses/one/?name=orders.eu"))


@pytest.mark.conformance("OP-i")
def test_a_change_of_one_message_is_listed_as_every_other_operation(operator_browser: Client) -> None:
    changed, approved = take_dead(), take_dead()
    begin(
        freeze(ids=[changed], principal=SYSTEM),
        OperationAction.PATCH,
        reason="mend it",
        principal=SYSTEM,
        params={"payload": "{}"},
    )
    begin(freeze(ids=[approved], principal=SYSTEM), OperationAction.APPROVE, reason="r", principal=SYSTEM)
    page = html_of(operator_browser.get("/operations/"))
    assert "Edit and redeliver #" in page or "Patch" in page
    assert "mend it" in page
    assert "Approve #" not in page
