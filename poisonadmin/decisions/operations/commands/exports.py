"""Taking a ledger out of the system is written down."""

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.decisions.operations.queries.operations import OperationDetail
from poisonadmin.messages.domain.member_outcomes import MemberOutcome


def record_export(operation: OperationDetail, outcome: MemberOutcome | None, *, principal: Principal) -> None:
    """Write into the audit log who takes the ledger of an operation out, or one line of it. Errors: `NotAllowed`."""
    principal.require(Permission.EXPORT)
    rows = operation.count if outcome is None else getattr(operation.ledger, outcome)
    details = {"rows": rows} | ({} if outcome is None else {"outcome": str(outcome)})
    audit.record(principal.name, "report.exported", "operation", str(operation.id), details=details)
