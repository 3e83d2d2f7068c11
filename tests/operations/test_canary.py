"""A canary tries a few members before all others, and halts the operation when they fail again."""

import re

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.store.models.message import Message
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_destination
from tests.fixtures.pages import html_of
from tests.operations.follow import answer_claim, approve_all, ledger, state

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, each message twice at most after an approval."""
    make_destination(max_delivery_attempts=2)


def test_a_canary_tries_some_of_every_group_before_all_others() -> None:
    """1, then 10, then 100, then all: a stage begins when the one before is answered."""
    others = [take_dead("orders.us", exception_class=f"Error{n}") for n in range(20)]
    for _ in range(130):
        take_dead()
    operation = approve_all(terms=OperationTerms(Pace(has_canary=True)))
    sizes = []
    while state(operation) == "running":
        carry_on()
        if not Message.objects.filter(state="TBDL").exists():
            break
        delivered = answer_claim()
        sizes.append(len(delivered))
        if len(sizes) == 2:
            assert len(set(delivered) & set(others)) >= 9, "a group each"
        carry_on()
    assert sizes == [1, 10, 100, 39]
    assert ledger(operation) == {"delivered": 150}
    assert state(operation) == "completed"


def test_what_a_canary_has_tried_comes_back_when_its_operation_is_cancelled() -> None:
    ids = [take_dead() for _ in range(30)]
    operation = approve_all(terms=OperationTerms(Pace(has_canary=True)))
    carry_on()
    assert Message.objects.filter(state="TBDL").count() == 1
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    assert state(operation) == "cancelling"
    carry_on()
    assert set(Message.objects.filter(id__in=ids).values_list("state", flat=True)) == {"NDLV"}
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 30})


def test_a_canary_that_failed_is_shown_as_failed_once_it_is_cancelled(operator_browser: Client) -> None:
    for _ in range(13):
        take_dead()
    operation = approve_all(terms=OperationTerms(Pace(has_canary=True)))
    carry_on()
    for _ in range(2):
        answer_claim("failed")
    carry_on()
    change(operation, OperationChange.CANCEL, reason="not yet", principal=SYSTEM)
    carry_on()
    assert (state(operation), ledger(operation)) == ("cancelled", {"failed_new": 1, "cancelled": 12})
    page = html_of(operator_browser.get(f"/operations/{operation}/"))
    steps = re.findall(r'<li class="step-(\w+)"[^>]*><strong>[^<]*</strong>\s*([\w ]+?)\s*</li>', page)
    assert steps == [("halted", "halted"), ("waiting", "not begun"), ("waiting", "not begun")]
    assert "1 failed with another failure than before." in page


def test_a_canary_that_fails_again_halts_the_operation_and_a_person_may_resume_it() -> None:
    for _ in range(30):
        take_dead()
    operation = approve_all(terms=OperationTerms(Pace(has_canary=True)))
    carry_on()
    for _ in range(2):
        answer_claim("failed")
    carry_on()
    found = get_operation(operation, principal=SYSTEM)
    assert (found.state, found.halted_why) == ("halted", "1 failed with another failure than before.")
    carry_on()
    assert ledger(operation) == {"failed_new": 1, "unanswered": 29}
    change(operation, OperationChange.RESUME, reason="it is known", principal=SYSTEM)
    carry_on()
    assert len(answer_claim()) == 29
    carry_on()
    assert ledger(operation) == {"failed_new": 1, "delivered": 29}
    assert state(operation) == "completed"
