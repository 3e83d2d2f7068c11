"""Destinations as administrators set them up: configuration and secrets, checked for each kind."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.db import connection, transaction

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.brokers import may_keep_login, validate_broker_destination, validate_login
from poisonadmin.core.commands import audit, configured, locks
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS, validate_pattern
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import checked
from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.destinations.domain.destination import DestinationSettings
from poisonadmin.destinations.domain.handler_config import handler_directories, require_module, validate_handler_config
from poisonadmin.destinations.domain.http_config import (
    InvalidDestination,
    may_keep_secrets,
    validate_headers,
    validate_http_config,
)
from poisonadmin.policies.commands import destination_named, require_in_scope, route_addresses
from poisonadmin.store.models.destination import Destination, DestinationKind
from poisonadmin.store.models.rule import PolicyRow


def checked_destination(settings: DestinationSettings) -> DestinationSettings:
    """Return the settings as they are stored.

    A handler's module is looked for, and not imported: only a sandbox ever does that.
    Errors: `InvalidDestination`.
    """
    kind, secrets = settings.kind, settings.secrets
    instead = {
        "config": lambda: _CHECKS[kind](settings.config),
        "secrets": lambda: None if secrets is None else _checked_secrets(kind, secrets),
    }
    return checked(settings, InvalidDestination, instead=instead)


def _checked_secrets(kind: str, secrets: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets as they are stored: headers for HTTP, a login for a broker, none for a handler.

    Errors: `InvalidDestination`.
    """
    if kind == DestinationKind.HANDLER:
        if secrets:
            raise InvalidDestination("secrets", "a handler is sent no headers")
        return {}
    if kind in BROKERS:
        return validate_login(secrets, refuse=InvalidDestination)
    return validate_headers(secrets, field="secrets")


def _kept_secrets(before: Destination | None, kind: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets of a destination that is saved without any: those it has, where they still fit.

    Errors: `InvalidDestination` when they would go along to another place.
    """
    if before is None or before.kind != kind:
        return {}
    kept: dict[str, str] = before.secrets
    may_keep = may_keep_login if kind in BROKERS else may_keep_secrets
    if kept and not may_keep(before.config, config):
        raise InvalidDestination("secrets", "must be given again: the stored ones are not sent to another place")
    return kept


def _checked_http(config: Mapping[str, Any]) -> dict[str, Any]:
    return validate_http_config(config, guard=guard_from(os.environ))


def _checked_handler(config: Mapping[str, Any]) -> dict[str, Any]:
    checked = validate_handler_config(config)
    require_module(checked["callable"], handler_directories(os.environ))
    return checked


def _checked_broker(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return validate_broker_destination(kind, config, guard=guard_from(os.environ))


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    DestinationKind.HTTP: _checked_http,
    DestinationKind.HANDLER: _checked_handler,
    **{kind: partial(_checked_broker, kind) for kind in BROKERS},
}


class InUse(PoisonAdminError):
    """Raised when a destination is to be deleted that policies still name."""

    code = "in_use"
    status = 409


def save_destination(
    name: str, *, principal: Principal, expected_version: int | None = None, **settings: Any
) -> Destination:
    """Create or replace a destination. `secrets` None keeps those it has; a handler has none.

    `settings`: those of `DestinationSettings`.
    Errors: `NotAllowed`, `NotFound`, `InvalidAddress`, `InvalidDestination`, `AlreadyExists`, `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    if (owner := settings.get("owner")) is not None:
        principal.require_cover(validate_pattern(owner))
    values = checked_destination(DestinationSettings(name=name, **settings))

    def write(before: Destination | None) -> dict[str, Any]:
        if before is None:
            principal.require_cover(values.owner or ANY_WORDS)
        _require_code_of_ours(principal, values.kind, before)
        secrets = values.secrets
        if secrets is None:
            secrets = _kept_secrets(before, values.kind, values.config)
        saved = {**vars(values), "secrets": secrets, "owner": values.owner or (before.owner if before else ANY_WORDS)}
        # How fast another place is has to be seen first.
        return saved if before and before.config == values.config else {**saved, "window": 1, "slowed_by": None}

    return configured.save(
        Destination,
        {"name": name},
        write,
        principal=principal,
        expected_version=expected_version,
        audited=("owner", "config"),
        require_seen=lambda row: require_in_scope(row, name, principal),
    )


def delete_destination(name: str, *, principal: Principal) -> None:
    """Remove a destination that no policy names. Errors: `NotAllowed`, `NotFound`, `InUse`."""
    principal.require(Permission.CONFIGURE)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        row = destination_named(name, principal=principal)
        users = PolicyRow.objects.filter(destination=row).values_list("match", flat=True)
        if users:
            shown = ", ".join(match for match in users if principal.covers(match))
            raise InUse(f"The destination {name} is named by policies{': ' * bool(shown)}{shown}.")
        cursor.execute("DELETE FROM destination WHERE name = %s", [name])
        audit.record(principal.name, "destination.deleted", "destination", name)


def set_destination_enabled(name: str, *, enabled: bool, principal: Principal, reason: str) -> Destination:
    """Switch a destination on or off.

    Off, nothing more is taken for it. Errors: `NotAllowed`, `NotFound`.
    """
    principal.require(Permission.PAUSE)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        row = destination_named(name, principal=principal)
        Destination.objects.filter(id=row.id).update(is_enabled=enabled)
        route_addresses(cursor)
        action = "destination.enabled" if enabled else "destination.disabled"
        audit.record(principal.name, action, "destination", name, note=reason)
    saved: Destination = Destination.objects.get(name=name)
    return saved


def _require_code_of_ours(principal: Principal, kind: str, before: Destination | None) -> None:
    """Raise NotAllowed where a handler is concerned: its code runs beside everybody's, so no address limits it."""
    if DestinationKind.HANDLER in (kind, before and before.kind) and not principal.sees_everything:
        raise NotAllowed(f"A handler runs code here, and {principal.name} is limited to some addresses.")
