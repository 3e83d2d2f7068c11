"""How many operations wait for somebody's sign-off."""

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.rows import fetch_values

_WAITING = """
SELECT count(*) FROM operation JOIN selection ON selection.id = selection_id
WHERE operation.ended_at IS NULL AND state = 'waiting_for_sign_off' AND sign_off_expires_at > now()
  AND requester <> %s AND (%s::bigint[] IS NULL OR selection.address_ids <@ %s::bigint[])
"""


def waiting_count(principal: Principal) -> int:
    """Return how many operations of others wait that the principal may sign off."""
    if not principal.may(Permission.SIGN_OFF):
        return 0
    visible = visible_ids(principal)
    return int(fetch_values(_WAITING, [principal.person, visible, visible])[0])
