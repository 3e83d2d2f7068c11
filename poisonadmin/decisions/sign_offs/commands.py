"""Sign-offs: another person consents or refuses in time, and exactly one decision counts; and the rules for them."""

from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands import audit, configured, locks
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import checked
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.decisions.operations.commands.beginning import start
from poisonadmin.decisions.operations.commands.carry_out import why_not_allowed
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, end_where_over
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.decisions.operations.domain.params import require_reason
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation
from poisonadmin.decisions.queries.refusals import require_in_the_clear
from poisonadmin.decisions.sign_offs.domain import SignOffDecision, SignOffLimit
from poisonadmin.decisions.sign_offs.queries import messages_at, rule_name
from poisonadmin.store.models.operation import Operation, SignOffRule

_THEN = {SignOffDecision.CONSENT: OperationState.RUNNING, SignOffDecision.REFUSE: OperationState.CANCELLING}
_WORDS = {SignOffDecision.CONSENT: "operation.signed_off", SignOffDecision.REFUSE: "operation.sign_off_refused"}
_DECIDE = """
UPDATE operation SET state = CASE WHEN %(to)s = 'running' AND begin_when IS NOT NULL THEN 'waiting_for_version'
                                  ELSE %(to)s END,
                     state_at = now(), sign_off_decision = %(decision)s, sign_off_by = %(by)s,
                     sign_off_at = now(), sign_off_reason = %(reason)s
WHERE id = %(id)s AND state = 'waiting_for_sign_off' AND sign_off_expires_at > now() AND requester <> %(person)s
"""
_EXPIRE = """
UPDATE operation SET state = 'cancelling', state_at = now()
WHERE id = %(id)s AND state = 'waiting_for_sign_off' AND sign_off_expires_at <= now()
RETURNING requested_by, reason
"""
_EXPIRED = """
SELECT id FROM operation
WHERE ended_at IS NULL AND state = 'waiting_for_sign_off' AND sign_off_expires_at <= now() ORDER BY id
"""


class HashMismatch(PoisonAdminError):
    """Raised when a sign-off is for another selection than the operation's."""

    code = "hash_mismatch"
    status = 409


class AnotherPersonNeeded(PoisonAdminError):
    """Raised when a person signs off what the same person asked for, by whatever session or token."""

    code = "another_person_needed"
    status = 403


def sign_off(
    operation_id: int, decision: SignOffDecision, *, selection_hash: str, reason: str, principal: Principal
) -> None:
    """Consent to an operation that waits, which begins it, or refuse, which cancels it.

    `selection_hash`: that of the messages that the caller has seen. A small operation is carried out before this
    returns.
    Errors: `NotAllowed`, `NotFound`, `InvalidOperation`, `HashMismatch`, `AnotherPersonNeeded`, `OperationNotChanged`.
    """
    principal.require(Permission.SIGN_OFF)
    require_reason(reason)
    found = get_operation(operation_id, principal=principal.as_reader)
    require_may_sign(found, principal)
    if selection_hash != found.hash:
        raise HashMismatch(f"The hash of operation {operation_id} is {found.hash}; nothing was done.")
    values: dict[str, Any] = {
        "id": operation_id,
        "to": str(_THEN[decision]),
        "decision": str(decision),
        "by": principal.name,
        "person": principal.person,
        "reason": reason,
    }
    asked = {"asked_by": found.requested_by, "asked_because": found.reason}
    counted = {"action": found.action, "count": found.count, "hash": found.hash, "selection": found.selection_id}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DECIDE, values)
        if not cursor.rowcount:
            raise OperationNotChanged(_why_not(operation_id))
        audit.record(
            principal.name,
            _WORDS[decision],
            "operation",
            str(operation_id),
            note=reason,
            details={**counted, **asked, "sign_off": found.sign_off},
        )
        if decision is SignOffDecision.CONSENT:
            operation = Operation.objects.get(id=operation_id)
            if why := why_not_allowed(operation):
                raise OperationNotChanged(f"{why} It can only be refused.")
            if operation.state == OperationState.RUNNING:
                start(operation)
    end_where_over(operation_id)


def require_may_sign(operation: OperationDetail, principal: Principal) -> None:
    """Do nothing for another person who may sign off, and sees where every member is and where it would go.

    Who signs off a change of payloads has to see them. Errors: `NotAllowed`, `AnotherPersonNeeded`,
    `QueryTooExpensive`.
    """
    principal.require(Permission.SIGN_OFF)
    if operation.action == OperationAction.PATCH:
        principal.require(Permission.READ_PAYLOAD)
        require_in_the_clear(operation.selection_id, principal)
    if operation.requester == principal.person:
        raise AnotherPersonNeeded("Another person has to sign off what you have asked for.")
    if principal.sees_everything:
        return
    for one in messages_at(operation.selection_id, target=operation.params.get("address")):
        if not all(principal.sees(address) for address in one.addresses):
            raise NotAllowed(f"Not all addresses of operation {operation.id} are in the scope of {principal.name}.")


def expire_sign_offs() -> int:
    """Cancel what nobody has signed off in time; return how many."""
    return sum(_expire(operation_id) for operation_id in fetch_values(_EXPIRED))


def _expire(operation_id: int) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_EXPIRE, {"id": operation_id})
        row = cursor.fetchone()
        if row is None:
            return False
        details = {"asked_by": row[0], "asked_because": row[1]}
        audit.record("system", "operation.sign_off_expired", "operation", str(operation_id), details=details)
    end_where_over(operation_id)
    return True


def _why_not(operation_id: int) -> str:
    state = Operation.objects.values_list("state", flat=True).get(id=operation_id)
    if state == OperationState.WAITING_FOR_SIGN_OFF:
        return "Nobody has signed it off in time; it is being cancelled."
    return f"The operation is {state}; it does not wait for a sign-off."


class InvalidSignOffRule(InvalidField):
    """Raised when a field of a sign-off rule is invalid; `field` names what is wrong."""

    code = "invalid_sign_off_rule"


def check_sign_off_rule(rule: SignOffLimit) -> SignOffLimit:
    """Return a rule that may be so. Errors: `InvalidSignOffRule`."""
    return checked(rule, InvalidSignOffRule)


def save_sign_off_rule(
    match: str,
    action: str | None,
    *,
    above: int,
    principal: Principal,
    expected_version: int | None = None,
) -> SignOffRule:
    """Create or replace the rule of a pattern and an action, None for any. What runs already goes on.

    Errors: `NotAllowed`, `InvalidSignOffRule`, `AlreadyExists`, `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    values = vars(check_sign_off_rule(SignOffLimit(match=match, action=action, above=above)))
    principal.require_cover(match)
    return configured.save(
        SignOffRule,
        {"match": match, "action": action},
        lambda _: {**values, "updated_by": principal.name},
        principal=principal,
        expected_version=expected_version,
        audited=values,
    )


def delete_sign_off_rule(rule_id: int, *, principal: Principal) -> None:
    """Remove a rule. What waits because of it still waits. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)
        row = SignOffRule.objects.filter(id=rule_id).first()
        if row is None or not principal.covers(row.match):
            raise NotFound(f"There is no sign-off rule {rule_id}.")
        row.delete()
        name = rule_name(row.match, row.action)
        details = {"match": row.match, "action": row.action, "above": row.above}
        audit.record(principal.name, "sign_off_rule.deleted", "sign_off_rule", name, details=details)
