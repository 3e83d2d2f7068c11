"""Counts of operations that wait for somebody's sign-off, and of those that were begun without."""

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import visible_ids

_OF_OTHERS = """
SELECT count(*) FROM operation JOIN selection ON selection.id = selection_id
WHERE {} AND requester <> %s AND (%s::bigint[] IS NULL OR selection.address_ids <@ %s::bigint[])
"""
_WAITING = _OF_OTHERS.format(
    "operation.ended_at IS NULL AND state = 'waiting_for_sign_off' AND sign_off_expires_at > now()"
)
_BEGUN_WITHOUT = _OF_OTHERS.format("broke_glass_at IS NOT NULL AND broke_glass_at > now() - interval '1 day'")


def waiting_count(principal: Principal) -> int:
    """Return how many operations of others wait that the principal may sign off."""
    return _count(_WAITING, principal)


def begun_without_count(principal: Principal) -> int:
    """Return how many operations of others that the principal could have signed off were begun without in a day."""
    return _count(_BEGUN_WITHOUT, principal)


def _count(sql: str, principal: Principal) -> int:
    if not principal.may(Permission.SIGN_OFF):
        return 0
    visible = visible_ids(principal)
    return int(fetch_values(sql, [principal.person, visible, visible])[0])
