"""Rules that say which operations need a sign-off: saved and removed."""

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import InvalidAddress, validate_pattern
from poisonadmin.core.domain.errors import InvalidField, NotFound, all_checked, require_version
from poisonadmin.core.domain.locks import Lock
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.sign_offs.queries.rules import rule_name
from poisonadmin.store.models.sign_off import SignOffRule

MAX_ABOVE = 10_000_000


class InvalidSignOffRule(InvalidField):
    """Raised when a field of a sign-off rule is invalid; `field` names what is wrong."""

    code = "invalid_sign_off_rule"


def check_sign_off_rule(match: str, action: str | None, *, above: int | None) -> None:
    """Do nothing where a rule may be so. Errors: `InvalidSignOffRule`."""
    all_checked(
        {
            "match": lambda: _check_pattern(match),
            "action": lambda: _check_action(action),
            "above": lambda: _check_above(above),
        }
    )


def _check_pattern(match: str) -> None:
    try:
        validate_pattern(match)
    except InvalidAddress as error:
        raise InvalidSignOffRule("match", error.detail) from None


def _check_action(action: str | None) -> None:
    if action is not None and action not in ACTIONS:
        raise InvalidSignOffRule("action", f"must be one of {', '.join(ACTIONS)}, or left out for any.")


def _check_above(above: int | None) -> None:
    if above is None or not 0 <= above <= MAX_ABOVE:
        raise InvalidSignOffRule("above", f"must be a whole number within 0..{MAX_ABOVE}.")


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
    check_sign_off_rule(match, action, above=above)
    principal.require_cover(match)
    name = rule_name(match, action)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)  # two who create the same rule at once must not replace one another
        before = SignOffRule.objects.filter(match=match, action=action).first()
        require_version(f"sign-off rule {name}", before, expected_version)
        row, _ = SignOffRule.objects.update_or_create(
            match=match,
            action=action,
            defaults={
                "above": above,
                "version": before.version + 1 if before else 1,
                "updated_by": principal.name,
                "updated_at": Now(),
            },
        )
        details = {"match": match, "action": action, "above": above, "was": before.above if before else None}
        audit.record(principal.name, "sign_off_rule.saved", "sign_off_rule", name, details=details)
    row.refresh_from_db()
    return row


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
