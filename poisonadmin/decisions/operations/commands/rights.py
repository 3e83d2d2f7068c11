"""Checks that the requester of an operation may still decide: revoked rights are revoked for operations too."""

from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import visible_ids
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.params import may_carry_out
from poisonadmin.decisions.operations.queries.operations import OperationRow
from poisonadmin.store.models.operation import Operation

_IS_SEEN = "SELECT address_ids <@ %s::bigint[] FROM selection WHERE id = %s"


def why_not_allowed(operation: Operation | OperationRow) -> str | None:
    """Return why who asked could not ask for it now, None where nothing is in the way or nobody with an account asked.

    What counts is the account, not the token or the session, which may be over.
    """
    if not operation.requester.startswith("user "):
        return None
    asked_by = principal_of_account(operation.requester)
    if asked_by is None:
        return f"The account of {operation.requested_by} is not in force any more."
    if not may_carry_out(OperationAction(operation.action), asked_by):
        return f"{operation.requested_by} may not do this any more."
    visible = visible_ids(asked_by)
    is_seen = visible is None or fetch_values(_IS_SEEN, [visible, operation.selection_id])[0]
    target = operation.params.get("address")
    if not is_seen or (target is not None and not asked_by.sees(target)):
        return f"Not all of its addresses are in the scope of {operation.requested_by} any more."
    return None
