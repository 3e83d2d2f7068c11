"""A sign-off in Chromium: asked for by one, reviewed and given by another, on pages that everybody can read."""

import pytest
from django.contrib.auth.models import User

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.operation import Operation
from tests.browser.axe import violations
from tests.browser.conftest import Visit
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_operation_is_reviewed_and_signed_off(visit: Visit) -> None:
    Access.objects.filter(user=User.objects.get(username="mara")).update(role=Role.ADMIN)
    make_orders_destination()
    save_sign_off_rule("orders.#", None, above=1, principal=SYSTEM)
    for _ in range(3):
        take_dead()
    asks = principal("olga", Role.OPERATOR)
    begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="the parser is mended", principal=asks)
    found: list[str] = []
    page = visit.open("/sign-offs/")
    rule = page.get_by_role("link", name="orders.#").get_attribute("href")
    page.get_by_role("link", name="Review: Approve").click()
    review = page.url
    selection = f"/operations/selections/{freeze({'state': ['NDLV']}, principal=SYSTEM)}/"
    for path in ("/sign-offs/", selection, str(rule), "/sign-offs/rules/new/", review.removeprefix(visit.base)):
        page = visit.open(path)
        found += [f"{path}: {problem}" for problem in violations(page)]
        page.set_viewport_size({"width": 320, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            found.append(f"{path}: wider than a window of 320 px")
        page.set_viewport_size({"width": 1280, "height": 900})
    assert found == []
    page = visit.open(selection)
    page.get_by_label("Most deliveries a second").fill("2")
    page.get_by_text("3 at 2/s: about 2 s.").wait_for()
    page = visit.open(review.removeprefix(visit.base))
    page.get_by_label("Reason").last.fill("checked with the shop")
    page.get_by_role("button", name="Sign off").click()
    page.get_by_text("Signed off by").wait_for()
    operation = Operation.objects.get()
    assert (operation.state, operation.sign_off_by, operation.walked) == ("running", "mara", 3)
    assert visit.complaints == []
