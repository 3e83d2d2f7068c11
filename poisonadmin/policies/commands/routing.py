"""What the policies say of each address, written down so that neither the claim nor a task need resolve anything."""

from functools import partial

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.oversize import reject_waiting
from poisonadmin.policies.queries.index import policy_index

_ROUTE = """
UPDATE address
SET destination_id = routed.destination_id, blame = routed.blame, max_payload_bytes = routed.max_payload_bytes,
    is_ordered = routed.is_ordered, is_watched = routed.is_watched
FROM (
    SELECT before.id, destination.id AS destination_id, said.blame, said.max_payload_bytes, said.is_ordered,
           said.is_watched, before.max_payload_bytes AS was_max_payload_bytes
    FROM unnest(%(ids)s::bigint[], %(destinations)s::text[], %(blames)s::text[], %(limits)s::bigint[],
                %(ordered)s::bool[], %(watched)s::bool[])
         AS said (id, destination, blame, max_payload_bytes, is_ordered, is_watched)
    JOIN address AS before ON before.id = said.id LEFT JOIN destination ON destination.name = said.destination
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
    said = [policies.resolve(name) for _, name in addresses]
    ids = [address_id for address_id, _ in addresses]
    cursor.execute(
        _ROUTE,
        {
            "ids": ids,
            "destinations": [one.destination for one in said],
            "blames": [str(one.policy.blame) for one in said],
            "limits": [one.policy.max_payload_bytes for one in said],
            "ordered": [one.policy.ordered for one in said],
            "watched": [one.policy.counts_beyond_the_message for one in said],
        },
    )
    lowered = [address_id for address_id, is_lower in cursor.fetchall() if is_lower]
    schedule.reopen(cursor, ids)
    if lowered:
        # Not in this transaction, which holds up every intake to a new address. Should it not come to this, what is
        # too large is found out when it is claimed.
        transaction.on_commit(partial(reject_waiting, lowered, actor=actor), robust=True)
