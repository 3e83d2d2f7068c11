"""Beginning an operation on all that is undecided, answering its deliveries, and reading what became of it."""

from typing import Any

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.message import Message
from tests.fixtures.delivery import answer, claim, end_nodes


def approve_all(**more: Any) -> int:
    """Begin to approve all that is NDLV; return the operation."""
    return begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="mended", principal=SYSTEM, **more)


def ledger(operation_id: int) -> dict[str, int]:
    """Return the lines of the ledger that are not 0, after checking that all of them sum to the count."""
    found = get_operation(operation_id, principal=SYSTEM)
    assert found.ledger.total == found.count
    return {name: n for name, n in vars(found.ledger).items() if n}


def state(operation_id: int) -> str:
    """Return the state of an operation."""
    return get_operation(operation_id, principal=SYSTEM).state


def answer_claim(outcome: str = "delivered", **columns: object) -> list[int]:
    """Answer everything that is due; return what was."""
    taken = claim()
    ids = list(Message.objects.filter(claim_id=taken.id).values_list("id", flat=True))
    answer(ids, outcome, **columns)
    end_nodes(taken)
    settle()
    return ids
