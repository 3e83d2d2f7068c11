"""Where addresses deliver, as the policies say; written down so that the claim need not resolve anything."""

from django.db.backends.utils import CursorWrapper

from poisonadmin.operations import lanes
from poisonadmin.queries.policy_book import book

_ROUTE = """
UPDATE address SET destination_id = destination.id
FROM unnest(%(names)s::text[], %(destinations)s::text[]) AS routed(name, destination)
     LEFT JOIN destination ON destination.name = routed.destination
WHERE address.name = routed.name AND address.destination_id IS DISTINCT FROM destination.id
"""


def route_addresses(cursor: CursorWrapper) -> None:
    """Give every address the destination that the policies say, and open or close its lanes. Hold `Lock.POLICIES`."""
    policies = book()
    cursor.execute("SELECT id, name FROM address ORDER BY id")
    addresses = cursor.fetchall()
    names = [name for _, name in addresses]
    cursor.execute(_ROUTE, {"names": names, "destinations": [policies.resolve(name).destination for name in names]})
    lanes.reopen(cursor, [address_id for address_id, _ in addresses])
