"""An operation goes on only while who asked for it may decide on all that it is on."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from poisonadmin.core.commands.authentication import principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Principal, Role
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Message
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver."""
    make_orders_destination()


@pytest.fixture
def olga() -> User:
    """Return an operator."""
    return make_user("olga", Role.OPERATOR)


def as_principal(user: User) -> Principal:
    """Return what the user may do."""
    found = principal_of_user(user)
    assert found is not None
    return found


def deactivate(user: User) -> None:
    """Take the account out of force."""
    User.objects.filter(id=user.id).update(is_active=False)


def demote(user: User) -> None:
    """Let the user only look."""
    Access.objects.filter(user=user).update(role=str(Role.VIEWER))


def limit(user: User) -> None:
    """Limit the user to other addresses."""
    Access.objects.filter(user=user).update(address_patterns=["elsewhere.#"])


@pytest.mark.parametrize(
    ("lose", "why"),
    [(deactivate, "not in force any more"), (demote, "may not do this any more"), (limit, "in the scope of olga")],
)
def test_it_is_halted_when_its_rights_are_gone(olga: User, lose: Callable[[User], None], why: str) -> None:
    take_dead()
    operation = begin(
        {"state": ["NDLV"]},
        OperationAction.APPROVE,
        reason="mended",
        principal=as_principal(olga),
        terms=OperationTerms(Pace(5.0)),
    )
    carry_on()
    lose(olga)
    carry_on()
    found = get_operation(operation, principal=SYSTEM)
    assert found.state == "halted"
    assert why in (found.halted_why or "")
    assert Lane.objects.get(operation_id=operation).is_held
    with pytest.raises(OperationNotChanged, match="Cancel it"):
        change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)
    change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    carry_on()
    assert get_operation(operation, principal=SYSTEM).ledger.cancelled == 1


def test_nobody_consents_to_what_its_author_may_not_do_any_more(olga: User) -> None:
    save_sign_off_rule("#", None, above=0, principal=SYSTEM)
    message = take_dead()
    operation = begin({"state": ["NDLV"]}, OperationAction.FAIL, reason="hopeless", principal=as_principal(olga))
    demote(olga)
    rita = as_principal(make_user("rita", Role.REVIEWER))
    asked = {"selection_hash": get_operation(operation, principal=SYSTEM).hash, "reason": "seen", "principal": rita}
    with pytest.raises(OperationNotChanged, match="only be refused"):
        sign_off(operation, SignOffDecision.CONSENT, **asked)  # type: ignore[arg-type]
    assert Message.objects.get(id=message).state == "NDLV"
    sign_off(operation, SignOffDecision.REFUSE, **asked)  # type: ignore[arg-type]
    assert get_operation(operation, principal=SYSTEM).state == "cancelled"
