"""Rules switched on and off by people."""

from django.db import transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.rules.commands.table import locked_rule
from poisonadmin.rules.domain.rules import Stage
from poisonadmin.store.models.rule import Rule


class NotDryRun(PoisonAdminError):
    """Raised when a rule before deliveries is to be switched on without a dry run of its present version."""

    code = "not_dry_run"
    status = 409


def enable_rule(rule_id: int, *, principal: Principal, reason: str, override: bool = False) -> Rule:
    """Switch a rule on. A rule before deliveries must have been dry-run as it is; with `override` it need not.

    Errors: `NotAllowed`, `NotFound`, `NotDryRun`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        is_tried = row.stage == Stage.AFTER or row.checked_version == row.version
        if not is_tried and not override:
            raise NotDryRun(f"The rule {row.name} has not been dry-run as it is; nothing was switched on.")
        Rule.objects.filter(id=rule_id).update(is_enabled=True, fault=None)
        details = {"version": row.version, "without_dry_run": not is_tried}
        audit.record(principal.name, "rule.enabled", "rule", row.name, note=reason, details=details)
    row.refresh_from_db()
    return row


def disable_rule(rule_id: int, *, principal: Principal, reason: str) -> Rule:
    """Switch a rule off. What is being delivered goes on as it began. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        row = locked_rule(rule_id, principal=principal)
        Rule.objects.filter(id=rule_id).update(is_enabled=False)
        audit.record(principal.name, "rule.disabled", "rule", row.name, note=reason, details={"version": row.version})
    row.refresh_from_db()
    return row
