"""Configuration by administrators.

Policies, destinations, sources. Each change is audited and in force at the next verdict.
"""

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.domain.access import NotAllowed, Permission, Principal
from poisonadmin.domain.addresses import validate_pattern
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.domain.policy_settings import validate_settings
from poisonadmin.domain.presets import preset as preset_named
from poisonadmin.operations import audit, locks
from poisonadmin.operations.destination_checks import checked_config, checked_secrets, kept_secrets
from poisonadmin.operations.locks import Lock
from poisonadmin.operations.routing import route_addresses
from poisonadmin.store.models import Destination, PolicyRow


class ConfigurationNotFound(PoisonAdminError):
    """Raised when there is no policy, destination or source of that name or id."""

    code = "not_found"
    status = 404


class VersionConflict(PoisonAdminError):
    """Raised when somebody else has changed the object since it was read."""

    code = "precondition_failed"
    status = 412


class InUse(PoisonAdminError):
    """Raised when a destination is to be deleted that policies still name."""

    code = "in_use"
    status = 409


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

    Errors: `NotAllowed`, `InvalidAddress`, `UnknownPreset`, `UnknownSetting`, `InvalidSetting`, `ConfigurationNotFound`
    (destination), `VersionConflict`.
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
            raise VersionConflict(f"The policy {match} has changed since it was read; nothing was saved.")
        row, _ = PolicyRow.objects.update_or_create(
            match=match,
            defaults={
                "preset": preset,
                "settings": {name: _plain(value) for name, value in checked.items()},
                "destination": _destination_named(destination),
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
    """Remove a policy; what less specific ones say is in force. Errors: `NotAllowed`, `ConfigurationNotFound`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        row = PolicyRow.objects.filter(id=policy_id).first()
        if row is None or not principal.covers(row.match):
            raise ConfigurationNotFound(f"There is no policy {policy_id}.")
        row.delete()
        route_addresses(cursor, actor=principal.name)
        audit.record(principal.name, "policy.deleted", "policy", row.match, details={"settings": row.settings})


def save_destination(
    name: str,
    *,
    kind: str,
    config: Mapping[str, Any],
    secrets: Mapping[str, str] | None,
    max_rate_per_second: float | None,
    principal: Principal,
    expected_version: int | None = None,
) -> Destination:
    """Create or replace a destination. `secrets` None keeps those it has; a handler has none.

    Errors: `NotAllowed`, `InvalidDestination`, `VersionConflict`.
    """
    principal.require(Permission.CONFIGURE)
    _require_no_limit(principal)
    checked = checked_config(kind, config)
    new_secrets = None if secrets is None else checked_secrets(kind, secrets)
    with transaction.atomic():
        before = Destination.objects.select_for_update().filter(name=name).first()
        if expected_version is not None and (before is None or before.version != expected_version):
            raise VersionConflict(f"The destination {name} has changed since it was read; nothing was saved.")
        values: dict[str, Any] = {
            "kind": kind,
            "config": checked,
            "secrets": kept_secrets(before, kind, checked) if new_secrets is None else new_secrets,
            "max_rate_per_second": max_rate_per_second,
            "version": before.version + 1 if before else 1,
            "updated_at": Now(),
        }
        row, _ = Destination.objects.update_or_create(name=name, defaults=values)
        audit.record(principal.name, "destination.saved", "destination", name, details={"config": checked})
    row.refresh_from_db()
    return row


def delete_destination(name: str, *, principal: Principal) -> None:
    """Remove a destination that no policy names. Errors: `NotAllowed`, `ConfigurationNotFound`, `InUse`."""
    principal.require(Permission.CONFIGURE)
    _require_no_limit(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        row = _destination_named(name)
        users = PolicyRow.objects.filter(destination=row).values_list("match", flat=True)
        if users:
            raise InUse(f"The destination {name} is named by the policies {', '.join(users)}.")
        cursor.execute("DELETE FROM destination WHERE name = %s", [name])
        audit.record(principal.name, "destination.deleted", "destination", name)


def set_destination_enabled(name: str, *, enabled: bool, principal: Principal, reason: str) -> Destination:
    """Switch a destination on or off.

    Off, nothing more is taken for it. Errors: `NotAllowed`, `ConfigurationNotFound`.
    """
    principal.require(Permission.PAUSE)
    _require_no_limit(principal)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        if not Destination.objects.filter(name=name).update(is_enabled=enabled):
            raise ConfigurationNotFound(f"There is no destination {name}.")
        route_addresses(cursor)
        action = "destination.enabled" if enabled else "destination.disabled"
        audit.record(principal.name, action, "destination", name, note=reason)
    return Destination.objects.get(name=name)


def _require_cover(principal: Principal, match: str) -> None:
    if not principal.covers(match):
        raise NotAllowed(f"The pattern {match} reaches beyond the addresses that {principal.name} is limited to.")


def _require_no_limit(principal: Principal) -> None:
    if not principal.sees_everything:
        raise NotAllowed(f"A destination may serve any address, and {principal.name} is limited to some.")


def _destination_named(name: str | None) -> Destination | None:
    if name is None:
        return None
    row = Destination.objects.filter(name=name).first()
    if row is None:
        raise ConfigurationNotFound(f"There is no destination {name}.")
    return row


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)
