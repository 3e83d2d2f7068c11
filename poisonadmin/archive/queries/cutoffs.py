"""Until when messages are archived, as policies say, address by address."""

from datetime import datetime, timedelta

from poisonadmin.policies.queries import policy_index
from poisonadmin.store.models.lane import Address

Cutoffs = list[dict[str, int | str | None]]


def cutoffs(as_of: datetime) -> Cutoffs:
    """Return for each address the last `state_at` of what is to be archived at `as_of`, as `ArchiveRun.cutoffs`; also
    of what loses its payload, with the days and the pattern of the policy that say so.

    An address that keeps everything is not among them.
    """
    index = policy_index()
    found: Cutoffs = []
    for address_id, name in Address.objects.order_by("id").values_list("id", "name"):
        resolved = index.resolve(name)
        policy = resolved.policy
        kept = {
            "delivered": _before(as_of, policy.keep_delivered_days),
            "failed": _before(as_of, policy.keep_failed_days),
            "payload": _before(as_of, policy.keep_payload_days),
        }
        if any(kept.values()):
            by = {
                "payload_days": policy.keep_payload_days,
                "payload_policy": resolved.origins["keep_payload_days"].pattern,
            }
            found.append({"address_id": address_id} | kept | by)
    return found


def _before(as_of: datetime, days: int | None) -> str | None:
    return None if days is None else (as_of - timedelta(days=days)).isoformat()
