"""Saving and removing policies, and applying them to the addresses that are there."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.access import OutOfScope, Permission, Principal
from poisonadmin.core.domain.addresses import validate_pattern
from poisonadmin.core.domain.errors import NotFound, all_checked, require_version
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.oversize import reject_waiting
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.policy import preset as preset_named
from poisonadmin.policies.domain.settings import implied_addresses, named_addresses, validate_settings
from poisonadmin.policies.queries import policy_index
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.rule import PolicyRow

_ROUTE = """
UPDATE address
SET destination_id = routed.destination_id, blame = routed.blame, max_payload_bytes = routed.max_payload_bytes,
    is_ordered = routed.is_ordered, is_watched = routed.is_watched
FROM (
    SELECT before.id, destination.id AS destination_id, resolved.blame, resolved.max_payload_bytes, resolved.is_ordered,
           resolved.is_watched, before.max_payload_bytes AS was_max_payload_bytes
    FROM unnest(%(ids)s::bigint[], %(destinations)s::text[], %(blames)s::text[], %(limits)s::bigint[],
                %(ordered)s::bool[], %(watched)s::bool[])
         AS resolved (id, destination, blame, max_payload_bytes, is_ordered, is_watched)
    JOIN address AS before ON before.id = resolved.id LEFT JOIN destination ON destination.name = resolved.destination
) AS routed
WHERE address.id = routed.id
  AND (address.destination_id, address.blame, address.max_payload_bytes, address.is_ordered, address.is_watched)
      IS DISTINCT FROM (routed.destination_id, routed.blame, routed.max_payload_bytes, routed.is_ordered,
                        routed.is_watched)
RETURNING address.id, routed.max_payload_bytes < routed.was_max_payload_bytes
"""


def apply_policies() -> None:
    """Give every address what the policies say, as after an upgrade that has more to write down of them."""
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        route_addresses(cursor)


def route_addresses(cursor: CursorWrapper, *, actor: str = "system") -> None:
    """Give every address what the policies say, and open or close its lanes. Hold `Lock.POLICIES`.

    Where less may be delivered than before, what waits and is too large is rejected after the commit.
    """
    policies = policy_index()
    cursor.execute("SELECT id, name FROM address ORDER BY id")
    addresses = cursor.fetchall()
    resolved = [policies.resolve(name) for _, name in addresses]
    ids = [address_id for address_id, _ in addresses]
    cursor.execute(
        _ROUTE,
        {
            "ids": ids,
            "destinations": [one.destination for one in resolved],
            "blames": [str(one.policy.blame) for one in resolved],
            "limits": [one.policy.max_payload_bytes for one in resolved],
            "ordered": [one.policy.ordered for one in resolved],
            "watched": [one.policy.counts_beyond_the_message for one in resolved],
        },
    )
    lowered = [address_id for address_id, is_lower in cursor.fetchall() if is_lower]
    schedule.reopen(cursor, ids)
    if lowered:
        # Not in this transaction, which holds up every intake to a new address. Should it not come to this, what is
        # too large is found out when it is claimed.
        transaction.on_commit(partial(reject_waiting, lowered, actor=actor), robust=True)


def checked_policy(match: str, *, preset: str | None, settings: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings as `Policy` takes them; raise as `save_policy` for what no policy may say."""
    checks = {
        "match": lambda: validate_pattern(match),
        "preset": lambda: None if preset is None else preset_named(preset),
        "settings": lambda: validate_settings(settings),
    }
    found: dict[str, object] = all_checked(checks)["settings"]
    return found


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

    What it names anew must be in the author's scope; what it named before may stay.
    Errors: `NotAllowed`, `InvalidAddress`, `UnknownPreset`, `UnknownSetting`, `InvalidSetting`, `NotFound` (a
    destination or an address), `AlreadyExists`, `PreconditionFailed`.
    """
    principal.require(Permission.CONFIGURE)
    checked = checked_policy(match, preset=preset, settings=settings)
    principal.require_cover(match)
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.POLICIES)
        before = PolicyRow.objects.filter(match=match).first()
        require_version(f"policy {match}", before, expected_version)
        stored = {name: _plain(value) for name, value in checked.items()}
        _require_seen(principal, preset, checked, before)
        row, _ = PolicyRow.objects.update_or_create(
            match=match,
            defaults={
                "preset": preset,
                "settings": stored,
                "destination": _delivers_to(destination, before, principal=principal),
                "version": before.version + 1 if before else 1,
                "updated_by": principal.name,
                "updated_at": Now(),
            },
        )
        route_addresses(cursor, actor=principal.name)
        # `policy_history` in policies/queries.py reads a policy's versions out of these entries.
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


def _require_seen(
    principal: Principal, preset: str | None, settings: Mapping[str, Any], before: PolicyRow | None
) -> None:
    known = set() if before is None else set(_addresses_of(before.preset, validate_settings(before.settings)))
    for name, address in _addresses_of(preset, settings):
        if (name, address) not in known:
            principal.require_seen(address, field=name)


def _addresses_of(preset: str | None, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a policy names, and what it moves messages to by its preset without naming it."""
    policy = replace(Policy() if preset is None else preset_named(preset), **settings)
    return [*named_addresses(settings), *implied_addresses(policy)]


def _delivers_to(name: str | None, before: PolicyRow | None, *, principal: Principal) -> Destination | None:
    if name is None:
        return None
    if before is not None and before.destination is not None and before.destination.name == name:
        return before.destination
    return destination_named(name, principal=principal)


def destination_named(name: str, *, principal: Principal) -> Destination:
    """Return the destination; raise NotFound, also out of scope."""
    return require_in_scope(Destination.objects.filter(name=name).first(), name, principal)


def require_in_scope(row: Destination | None, name: str, principal: Principal) -> Destination:
    """Return the destination of this name; raise NotFound where there is none, or its owner is out of scope."""
    if row is None or not principal.covers(row.owner):
        raise OutOfScope("destination", f"destination {name}")
    return row


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)
