"""Taking a decision back that was a mistake: what has not begun is cancelled, and what was marked FAIL is restored."""

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.commands.decisions import Decided
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, change
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation

# As many as can be ticked; of more, another operation restores what was marked.
MAX_RESTORED = 500

# Whatever somebody has decided on since stays.
_MARKED = """
SELECT message.id FROM selection_piece AS piece CROSS JOIN LATERAL unnest(message_ids) AS member (id)
     JOIN message ON message.id = member.id AND message.state = 'FAIL'
WHERE piece.selection_id = %s AND (
    SELECT operation_id FROM history WHERE message_id = message.id AND event <> 'assigned' ORDER BY seq DESC LIMIT 1
) = %s ORDER BY message.id
"""

_RESTORED = """
SELECT DISTINCT since.operation_id
FROM selection_piece AS piece CROSS JOIN LATERAL unnest(message_ids) AS member (id)
     JOIN history AS since ON since.message_id = member.id AND since.event = 'restored' AND since.operation_id > %s
WHERE piece.selection_id = %s ORDER BY 1
"""


def can_undo(operation: OperationDetail) -> bool:
    """Return whether there is something that can be taken back."""
    if operation.action == OperationAction.FAIL:
        return bool(_marked(operation))
    return operation.action in DELIVERING and operation.ended_at is None


def restored_by(operation: OperationDetail) -> list[int]:
    """Return the operations that have restored some of what this one has marked FAIL, where it is not too large."""
    if operation.action != OperationAction.FAIL or operation.count > MAX_RESTORED:
        return []
    return fetch_values(_RESTORED, [operation.id, operation.selection_id])


def undo(operation_id: int, *, principal: Principal) -> Decided | None:
    """Take an operation back; return what was restored, None where it is being cancelled instead.

    Errors: `NotAllowed`, `NotFound`, `OperationNotChanged`.
    """
    principal.require(Permission.DECIDE)
    found = get_operation(operation_id, principal=principal.as_reader)
    reason = f"Undo of operation #{operation_id}"
    if found.action == OperationAction.FAIL and (ids := _marked(found)):
        return decide_on(ids, OperationAction.RESTORE, reason=reason, principal=principal)
    if found.action not in DELIVERING or found.ended_at is not None:
        raise OperationNotChanged("Nothing of the operation can be taken back any more.")
    change(operation_id, OperationChange.CANCEL, reason=reason, principal=principal)
    return None


def _marked(operation: OperationDetail) -> list[int]:
    """Return the messages that are still as a FAIL has left them, none before it is over."""
    if operation.ended_at is None or operation.count > MAX_RESTORED:
        return []
    return fetch_values(_MARKED, [operation.selection_id, operation.id])
