"""Masking rules: saved and removed. They hold from the next request on."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from poisonadmin.core.commands import audit, configured
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NEW
from poisonadmin.masking.domain import PARTS, MaskingRuleFields, checked_rule
from poisonadmin.masking.queries import get_masking_rule
from poisonadmin.store.models.masking import MaskingRule


def save_masking_rule(
    fields: MaskingRuleFields, *, principal: Principal, rule_id: int | None = None, expected_version: int | None = NEW
) -> MaskingRule:
    """Add a rule, or replace the one of this id.

    Errors: `NotAllowed`, `NotFound`, `InvalidMaskingRule`, `AlreadyExists`, `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    if rule_id is not None:
        get_masking_rule(rule_id, principal=principal.as_reader)
    values = vars(checked_rule(fields))
    principal.require_cover(values["match"])
    key: Mapping[str, Any] = {"id": rule_id}
    if rule_id is None:
        key = {name: values[name] for name in ("match", *PARTS)}
    return configured.save(
        MaskingRule,
        key,
        lambda _: values,
        principal=principal,
        expected_version=expected_version,
        audited=values,
    )


def delete_masking_rule(rule_id: int, *, principal: Principal) -> None:
    """Remove a rule. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    row = get_masking_rule(rule_id, principal=principal.as_reader)
    with transaction.atomic():
        MaskingRule.objects.filter(id=rule_id).delete()
        details = {name: getattr(row, name) for name in ("match", *PARTS, "allowed_roles")}
        audit.record(principal.name, "masking_rule.deleted", "masking_rule", str(rule_id), details=details)
