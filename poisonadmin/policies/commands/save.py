"""Configuration by administrators.

Policies, destinations, sources. Each change is audited and in force at the next decision.
"""

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.addresses import validate_pattern
from poisonadmin.core.domain.errors import NotFound, PreconditionFailed
from poisonadmin.core.domain.locks import Lock
from poisonadmin.policies.commands.routing import route_addresses
from poisonadmin.policies.domain.presets import preset as preset_named
from poisonadmin.policies.domain.settings import validate_settings
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.policy import PolicyRow


def save_policy(
    match: str,
    *,
    preset: str | None,
    settings: Mapping[str, Any],
    destination: str | None,
    principal: Principal,
    expected_version: int | None = None,
) -> PolicyRow:
    """Create or replace the policy of a pattern; addresses deliver where the policies now say.

    Errors: `NotAllowed`, `InvalidAddress`, `UnknownPreset`, `UnknownSetting`, `InvalidSetting`, `NotFound`
    (destination), `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    validate_pattern(match)
    _require_cover(principal, match)
    if preset is not None:
        preset_named(preset)
    checked = validate_settings(settings)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        before = PolicyRow.objects.filter(match=match).first()
        if expected_version is not None and (before is None or before.version != expected_version):
            raise PreconditionFailed(f"The policy {match} has changed since it was read; nothing was saved.")
        row, _ = PolicyRow.objects.update_or_create(
            match=match,
            defaults={
                "preset": preset,
                "settings": {name: _plain(value) for name, value in checked.items()},
                "destination": destination_named(destination),
                "version": before.version + 1 if before else 1,
                "updated_by": principal.name,
                "updated_at": Now(),
            },
        )
        route_addresses(cursor, actor=principal.name)
        # queries/policy_history.py reads a policy's versions out of these entries.
        details = {"preset": preset, "settings": row.settings, "destination": destination, "version": row.version}
        audit.record(principal.name, "policy.saved", "policy", match, details=details)
    row.refresh_from_db()
    return row


def delete_policy(policy_id: int, *, principal: Principal) -> None:
    """Remove a policy; less specific policies are then in force. Errors: `NotAllowed`, `NotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        row = PolicyRow.objects.filter(id=policy_id).first()
        if row is None or not principal.covers(row.match):
            raise NotFound(f"There is no policy {policy_id}.")
        row.delete()
        route_addresses(cursor, actor=principal.name)
        audit.record(principal.name, "policy.deleted", "policy", row.match, details={"settings": row.settings})


def _require_cover(principal: Principal, match: str) -> None:
    if not principal.covers(match):
        raise NotAllowed(f"The pattern {match} reaches beyond the addresses that {principal.name} is limited to.")


def destination_named(name: str | None) -> Destination | None:
    if name is None:
        return None
    row = Destination.objects.filter(name=name).first()
    if row is None:
        raise NotFound(f"There is no destination {name}.")
    return row


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)
