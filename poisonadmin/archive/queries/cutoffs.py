"""Until when messages are archived, as policies say, address by address."""

from datetime import datetime, timedelta

from poisonadmin.policies.queries.index import policy_index
from poisonadmin.store.models.lane import Address

Cutoffs = list[dict[str, int | str | None]]


def cutoffs(as_of: datetime) -> Cutoffs:
    """Return for each address the last `state_at` of what is to be archived at `as_of`, as `ArchiveRun.cutoffs`.

    An address that keeps everything is not among them.
    """
    index = policy_index()
    found: Cutoffs = []
    for address_id, name in Address.objects.order_by("id").values_list("id", "name"):
        policy = index.resolve(name).policy
        delivered, failed = (_before(as_of, days) for days in (policy.keep_delivered_days, policy.keep_failed_days))
        if delivered or failed:
            found.append({"address_id": address_id, "delivered": delivered, "failed": failed})
    return found


def _before(as_of: datetime, days: int | None) -> str | None:
    return None if days is None else (as_of - timedelta(days=days)).isoformat()
