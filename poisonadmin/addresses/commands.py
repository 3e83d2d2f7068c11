"""Addresses: made when the first message names them, paused and resumed by people."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import validate_address
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.commands import schedule
from poisonadmin.policies.queries import policy_index

_FIND = """
SELECT address.name, address.id, lane.id, address.destination_id IS NOT NULL, address.max_payload_bytes
FROM address JOIN lane ON lane.address_id = address.id AND lane.is_plain
WHERE address.name = ANY(%s)
"""
_MAKE = """
WITH wanted AS (
        SELECT * FROM unnest(%(names)s::text[], %(destinations)s::text[], %(blames)s::text[], %(limits)s::bigint[],
                             %(ordered)s::bool[], %(watched)s::bool[])
            AS w(name, destination, blame, max_payload_bytes, is_ordered, is_watched)),
     made AS (
        INSERT INTO address (name, destination_id, blame, max_payload_bytes, is_ordered, is_watched)
        SELECT wanted.name, destination.id, blame, max_payload_bytes, is_ordered, is_watched
        FROM wanted LEFT JOIN destination ON destination.name = wanted.destination
        ORDER BY wanted.name ON CONFLICT (name) DO NOTHING RETURNING id, destination_id)
INSERT INTO lane (address_id, is_open)
SELECT made.id, destination.is_enabled IS TRUE FROM made LEFT JOIN destination ON destination.id = made.destination_id
"""
_SET_STATUS = """
UPDATE address SET status = %(to)s, status_by = %(actor)s, status_note = %(reason)s, status_message_id = NULL,
                   status_at = now()
WHERE name = %(name)s AND status = ANY(%(from)s) RETURNING id
"""


@dataclass(frozen=True)
class AddressRef:
    """An address as the writers of messages need it."""

    id: int
    lane_id: int
    has_destination: bool
    max_payload_bytes: int


def ensure_addresses(names: Iterable[str]) -> dict[str, AddressRef]:
    """Return every named address, made where it was missing. Call inside a transaction.

    Errors: `InvalidAddress`.
    """
    wanted = sorted(set(names))
    with connection.cursor() as cursor:
        found = _find(cursor, wanted)
        missing = [validate_address(name) for name in wanted if name not in found]
        if missing:
            # A policy saved meanwhile would not see addresses that are not committed, nor we that policy.
            locks.share(cursor, Lock.POLICIES)
            policies = policy_index()
            resolved = [policies.resolve(name) for name in missing]
            values: dict[str, Any] = {
                "names": missing,
                "destinations": [one.destination for one in resolved],
                "blames": [str(one.policy.blame) for one in resolved],
                "limits": [one.policy.max_payload_bytes for one in resolved],
                "ordered": [one.policy.ordered for one in resolved],
                "watched": [one.policy.counts_beyond_the_message for one in resolved],
            }
            cursor.execute(_MAKE, values)
            found |= _find(cursor, missing)
    return found


def _find(cursor: CursorWrapper, names: list[str]) -> dict[str, AddressRef]:
    cursor.execute(_FIND, [names])
    return {name: AddressRef(*rest) for name, *rest in cursor.fetchall()}


class AddressStatusConflict(PoisonAdminError):
    """Raised when an address is paused that is not ON, or resumed that is ON."""

    code = "address_status_conflict"
    status = 409


class NotOnAddress(PoisonAdminError):
    """Raised when an address is to be resumed without a message, and the message is not on it."""

    code = "not_on_address"
    status = 409


def pause(name: str, *, principal: Principal, reason: str) -> None:
    """Stop delivering from the address until it is resumed. What is under way ends; new messages wait.

    Errors: `NotAllowed`, `NotFound`, `AddressStatusConflict`.
    """
    _set_status(name, principal=principal, reason=reason, from_statuses=("ON",), to_status="PAUSED")


def resume(name: str, *, principal: Principal, reason: str) -> None:
    """Deliver from the address again. Errors: `NotAllowed`, `NotFound`, `AddressStatusConflict`."""
    _set_status(name, principal=principal, reason=reason, from_statuses=("PAUSED", "STOPPED"), to_status="ON")


def _set_status(
    name: str, *, principal: Principal, reason: str, from_statuses: tuple[str, ...], to_status: str
) -> None:
    principal.require(Permission.PAUSE)
    if not principal.sees(name):
        raise NotFound(f"There is no address {name}.")
    values: dict[str, Any] = {
        "to": to_status,
        "actor": principal.name,
        "reason": reason,
        "name": name,
        "from": list(from_statuses),
    }

    def set_once() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_SET_STATUS, values)
            changed = cursor.fetchone()
            if changed is None:
                raise _why_not(cursor, name)
            schedule.reopen(cursor, [changed[0]])
            audit.record(principal.name, f"address.{to_status.lower()}", "address", name, note=reason)

    retried(set_once)


def _why_not(cursor: CursorWrapper, name: str) -> PoisonAdminError:
    cursor.execute("SELECT status FROM address WHERE name = %s", [name])
    row = cursor.fetchone()
    if row is None:
        return NotFound(f"There is no address {name}.")
    return AddressStatusConflict(f"The address {name} is {row[0]} already.")
