"""Rules that say which operations need a sign-off: saved and removed."""

from functools import partial

from django.db import connection, transaction

from poisonadmin.core.commands import audit, configured, locks
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import validate_pattern
from poisonadmin.core.domain.errors import InvalidField, NotFound, all_checked
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import InvalidValue, of_field, whole
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.sign_offs.queries.rules import rule_name
from poisonadmin.store.models.operation import SignOffRule

MAX_ABOVE = 10_000_000


class InvalidSignOffRule(InvalidField):
    """Raised when a field of a sign-off rule is invalid; `field` names what is wrong."""

    code = "invalid_sign_off_rule"


_checked_above = whole(0, MAX_ABOVE, wrong="must be a whole number within {}..{}.")


def check_sign_off_rule(match: str, action: str | None, *, above: int | None) -> None:
    """Do nothing where a rule may be so. Errors: `InvalidSignOffRule`."""
    checks = {
        "match": lambda: validate_pattern(match),
        "action": lambda: _check_action(action),
        "above": lambda: _checked_above(above),
    }
    all_checked({name: partial(of_field, name, check, InvalidSignOffRule) for name, check in checks.items()})


def _check_action(action: str | None) -> None:
    if action is not None and action not in ACTIONS:
        raise InvalidValue(f"must be one of {', '.join(ACTIONS)}, or left out for any.")


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
    values = {"match": match, "action": action, "above": above}
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
