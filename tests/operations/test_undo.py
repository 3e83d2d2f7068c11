"""Decisions that were a mistake are taken back with one click, as far as nothing has followed from them."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on
from poisonadmin.decisions.operations.commands.undoing import undo
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures import decisions
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db


def states(*ids: int) -> list[str]:
    """Return the states of messages."""
    found = dict(Message.objects.filter(id__in=ids).values_list("id", "state"))
    return [found[one] for one in ids]


def decided(action: OperationAction, *ids: int) -> int:
    """Decide, and return the operation."""
    operation = decide_on(ids, action, reason="r", principal=SYSTEM).operation
    assert operation is not None
    return operation


def test_a_fail_is_restored_but_for_what_was_failed_before_or_decided_on_since() -> None:
    before, since, wrong = take_dead(), take_dead(), take_dead()
    decisions.mark_fail([before], principal=SYSTEM, reason="right")
    operation = decided(OperationAction.FAIL, before, since, wrong)
    decided(OperationAction.RESTORE, since)
    decided(OperationAction.FAIL, since)
    restored = undo(operation, principal=SYSTEM)
    assert restored is not None
    assert restored.changed == (wrong,)
    assert states(before, since, wrong) == ["FAIL", "FAIL", "NDLV"]
    with pytest.raises(OperationNotChanged):
        undo(operation, principal=SYSTEM)


def test_an_approval_that_has_not_begun_is_taken_back() -> None:
    make_orders_destination()
    ids = [take_dead(), take_dead()]
    operation = decided(OperationAction.APPROVE, *ids)
    assert states(*ids) == ["TBDL", "TBDL"]
    assert undo(operation, principal=SYSTEM) is None
    carry_on()
    assert states(*ids) == ["NDLV", "NDLV"]
    with pytest.raises(OperationNotChanged):
        undo(operation, principal=SYSTEM)


def test_nobody_takes_back_what_is_out_of_scope() -> None:
    operation = decided(OperationAction.FAIL, take_dead("secret"))
    with pytest.raises(NotFound):
        undo(operation, principal=principal("olga", Role.OPERATOR, ["orders.#"]))


def test_one_click_undoes_what_the_page_says_was_done(browser_of: Callable[[str], Client]) -> None:
    browser, ids = browser_of("operator"), [take_dead(), take_dead()]
    form = {"id": [str(one) for one in ids], "origin": "list", "back": "/triage/?state=FAIL", "reason": "wrong"}
    page = browser.post("/messages/decide/fail/now/", form, follow=True).content.decode()
    assert states(*ids) == ["FAIL", "FAIL"]
    assert 'data-decision="restore"' in page
    assert 'data-decision="approve"' not in page
    [path] = re.findall(r'action="(/operations/\d+/undo/[^"]*)"', page)
    answer = browser.post(path.replace("&amp;", "&"))
    assert (answer.status_code, answer["Location"]) == (302, "/triage/?state=FAIL")
    assert states(*ids) == ["NDLV", "NDLV"]
    operation = decided(OperationAction.FAIL, *ids)
    assert f'action="/operations/{operation}/undo/"' in browser.get(f"/operations/{operation}/").content.decode()
    assert browser_of("viewer").post(f"/operations/{operation}/undo/").status_code == 403
    assert "Restored since" not in browser.get(f"/operations/{operation}/").content.decode()
    browser.post(f"/operations/{operation}/undo/")
    undone = browser.get(f"/operations/{operation}/").content.decode()
    assert "/undo/" not in undone, "nothing is left to be undone"
    restored = Operation.objects.latest("id").id
    assert f'Restored since by</dt><dd><a href="/operations/{restored}/">operation #{restored}</a></dd>' in undone
