"""Two who decide on an operation that waits, at the same moment: exactly one decision counts, the other is told."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from poisonadmin.core.domain.access import Role, principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import expire_sign_offs, save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_destination

pytestmark = pytest.mark.django_db(transaction=True)
PROJECT = Path(__file__).resolve().parents[2]
CONSENT, REFUSE = SignOffDecision
OLGA = principal("olga", Role.OPERATOR)
ADA = principal("ada", Role.ADMIN)
MESSAGES = 5


@pytest.fixture
def waiting(transactional_db: None) -> int:
    """Return an operation that waits for a sign-off."""
    make_destination()
    save_sign_off_rule("#", None, above=1, principal=ADA)
    for _ in range(MESSAGES):
        take_dead()
    return begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="r", principal=OLGA)


def decided(operation: int, decision: SignOffDecision, name: str) -> None:
    """Consent or refuse as somebody."""
    found = get_operation(operation, principal=ADA)
    by = principal(name, Role.REVIEWER)
    sign_off(operation, decision, selection_hash=found.hash, reason="r", principal=by)


def together(*works: Callable[[], object]) -> int:
    """Do the works at once; return how many were refused because the operation does not wait any more."""

    def work(one: Callable[[], object]) -> bool:
        try:
            one()
        except OperationNotChanged:
            return True
        else:
            return False
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as threads:
        return sum(threads.map(work, works))


def decisions() -> int:
    """Return how many decisions on the operation the audit log has."""
    kinds = ("signed_off", "sign_off_refused", "sign_off_expired", "cancel")
    return Audit.objects.filter(action__in=[f"operation.{kind}" for kind in kinds]).count()


def assert_all_or_nothing(operation: int) -> None:
    """Check that every message was decided on once where the operation was begun, and not at all otherwise."""
    carry_on()
    found = get_operation(operation, principal=ADA)
    approved = History.objects.filter(event="approved").count()
    assert found.ledger.total == MESSAGES
    if found.state == "cancelled" and found.sign_off_decision != "consent":
        assert (found.ledger.cancelled, approved) == (MESSAGES, 0)
        assert Message.objects.filter(state="NDLV").count() == MESSAGES
    else:
        assert approved == MESSAGES


def test_of_many_sign_offs_at_once_one_counts(waiting: int) -> None:
    works = [lambda n=n: decided(waiting, (CONSENT, REFUSE)[n % 2], f"reviewer {n}") for n in range(8)]  # type: ignore[misc]
    assert together(*works) == 7
    assert decisions() == 1
    assert_all_or_nothing(waiting)


def test_a_sign_off_and_a_cancel_at_once(waiting: int) -> None:
    together(
        lambda: decided(waiting, CONSENT, "rita"),
        lambda: change(waiting, OperationChange.CANCEL, reason="r", principal=OLGA),
    )
    # A consent that came first is a running operation, which may be cancelled; the other way round it is too late.
    found = get_operation(waiting, principal=ADA)
    is_signed = found.sign_off_decision == "consent"
    assert (found.state, decisions()) == (("cancelling", 2) if is_signed else ("cancelled", 1))
    carry_on()
    found = get_operation(waiting, principal=ADA)
    assert (found.state, found.ledger.cancelled, found.ended_at is not None) == ("cancelled", MESSAGES, True)
    assert Message.objects.filter(state="NDLV").count() == MESSAGES


@pytest.mark.parametrize("is_late", [False, True])
def test_a_sign_off_against_the_expiry(waiting: int, is_late: bool) -> None:
    if is_late:
        Operation.objects.update(sign_off_expires_at=Now())
    refused = together(lambda: decided(waiting, CONSENT, "rita"), expire_sign_offs)
    assert (refused, decisions()) == (int(is_late), 1)
    assert get_operation(waiting, principal=ADA).state == ("cancelled" if is_late else "running")
    assert_all_or_nothing(waiting)


def test_two_operations_of_a_person_at_once_count_each_other(waiting: int) -> None:
    change(waiting, OperationChange.CANCEL, reason="r", principal=OLGA)
    ids = list(Message.objects.values_list("id", flat=True))
    frozen = [freeze(ids=[one], principal=OLGA) for one in ids]
    works = [
        lambda one=one: begin(one, OperationAction.FAIL, reason="r", principal=OLGA)  # type: ignore[misc]
        for one in frozen
    ]
    together(*works)
    assert Message.objects.filter(state="FAIL").count() == 1, "the limit is 1"
    assert Operation.objects.filter(state="waiting_for_sign_off").count() == MESSAGES - 1


def test_a_sign_off_that_is_killed_was_never_made(waiting: int, test_database_url: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT FROM message FOR UPDATE")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sign_offs.consent", str(waiting)],
            cwd=PROJECT,
            env=os.environ | {"DATABASE_URL": test_database_url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"},
        )
        # It has written its decision, and waits for the messages in the same transaction.
        while not fetch_values("SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    carry_on()
    found = get_operation(waiting, principal=ADA)
    assert (found.state, found.ledger.unanswered, decisions()) == ("waiting_for_sign_off", MESSAGES, 0)
    decided(waiting, CONSENT, "rita")
    assert decisions() == 1
    assert_all_or_nothing(waiting)
