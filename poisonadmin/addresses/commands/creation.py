"""Addresses: made when the first message names them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.addresses import validate_address
from poisonadmin.core.domain.locks import Lock
from poisonadmin.policies.queries.index import policy_index


@dataclass(frozen=True)
class AddressRef:
    """What a writer of messages needs to know of an address."""

    id: int
    lane_id: int
    has_destination: bool
    max_payload_bytes: int


_FIND = """
SELECT address.name, address.id, lane.id, address.destination_id IS NOT NULL, address.max_payload_bytes
FROM address JOIN lane ON lane.address_id = address.id AND lane.conversation_id IS NULL AND NOT lane.is_isolation
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
            said = [policies.resolve(name) for name in missing]
            values: dict[str, Any] = {
                "names": missing,
                "destinations": [one.destination for one in said],
                "blames": [str(one.policy.blame) for one in said],
                "limits": [one.policy.max_payload_bytes for one in said],
                "ordered": [one.policy.ordered for one in said],
                "watched": [one.policy.counts_beyond_the_message for one in said],
            }
            cursor.execute(_MAKE, values)
            found |= _find(cursor, missing)
    return found


def _find(cursor: CursorWrapper, names: list[str]) -> dict[str, AddressRef]:
    cursor.execute(_FIND, [names])
    return {name: AddressRef(*rest) for name, *rest in cursor.fetchall()}
