"""The sign-off that an operation needs: read when one is begun, and for its preview."""

from collections.abc import Sequence

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import bounded, fetch, fetch_rows
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.domain.sign_off import MessagesAt, SignOffLimit, SignOffNeeded, strictest

COUNT_SECONDS = 60
_LIMITS = "SELECT match, action, above FROM sign_off_rule WHERE action = %s OR (action IS NULL AND %s)"
# What was signed off, or begun without, was decided by more than one limit.
_EARLIER = """
SELECT selection_id, params ->> 'address', count FROM operation
WHERE requester = %s AND action = %s AND sign_off IS NULL AND requested_at > now() - interval '1 hour'
"""
_MESSAGES_AT = """
SELECT address.name, back.name, targets, count(*) FILTER (WHERE is_member), count(*) FILTER (WHERE NOT is_member)
FROM (
    SELECT id, bool_or(is_member) AS is_member, array_remove(array_agg(DISTINCT target), NULL) AS targets
    FROM (
        SELECT unnest(%(ids)s::bigint[]) AS id, TRUE AS is_member, %(target)s::text AS target
        UNION ALL
        SELECT unnest(message_ids), selection_id IS NOT DISTINCT FROM %(selection)s, target
        FROM unnest(%(selections)s::bigint[], %(targets)s::text[]) AS one (selection_id, target)
             JOIN selection_piece USING (selection_id)
    ) AS chosen GROUP BY id
) AS member
     JOIN message ON message.id = member.id JOIN address ON address.id = message.address_id
     JOIN address AS back ON back.id = coalesce(message.original_address_id, message.address_id)
GROUP BY 1, 2, 3
"""


def limits_of(action: OperationAction) -> list[SignOffLimit]:
    """Return the limits that hold for an action. Owner and tags can be set back: only a rule that names it counts."""
    return fetch(SignOffLimit, _LIMITS, [str(action), action is not OperationAction.ASSIGN])


def sign_off_needed(
    limits: Sequence[SignOffLimit],
    action: OperationAction,
    *,
    principal: Principal,
    count: int,
    selection_id: int | None = None,
    ids: Sequence[int] = (),
    target: str | None = None,
) -> SignOffNeeded | None:
    """Return which of the `limits_of` the action an operation would exceed if the principal began it now.

    It is on the `count` members of a selection, or on `ids`, and may redirect them to `target`. Different messages are
    counted, also of those that the same person decided on in the last hour with the same action: many small operations
    are no way round.
    Errors: `QueryTooExpensive`.
    """
    if not limits:
        return None
    earlier = fetch_rows(_EARLIER, [principal.person, str(action)])
    if count + sum(n for _, _, n in earlier) <= min(limit.above for limit in limits):
        return None
    chosen = [(one, to) for one, to, _ in earlier]
    return strictest(limits, messages_at(selection_id, ids=ids, earlier=chosen, target=target))


def messages_at(
    selection_id: int | None,
    *,
    ids: Sequence[int] = (),
    earlier: Sequence[tuple[int, str | None]] = (),
    target: str | None = None,
) -> list[MessagesAt]:
    """Return where the members of a selection and `ids` are now, and those of `earlier` selections.

    `target`, and the second part of an `earlier` one: the address that they are redirected to, None for none.
    Errors: `QueryTooExpensive`.
    """
    selections = [*([] if selection_id is None else [(selection_id, target)]), *earlier]
    values = {
        "ids": list(ids),
        "target": target,
        "selection": selection_id,
        "selections": [one for one, _ in selections],
        "targets": [to for _, to in selections],
    }
    with bounded(COUNT_SECONDS):
        return [
            MessagesAt(frozenset({at, back, *targets}), *counts)
            for at, back, targets, *counts in fetch_rows(_MESSAGES_AT, values)
        ]
