"""Why a decision leaves a message alone: one expression each, for carrying it out and for its preview.

An expression is NULL for a message that the decision may change, else a code below, or the state that the message is
in. It needs `joins`, the parameter `visible`: the ids of the addresses that who decides sees, NULL for all, and
`values`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from poisonadmin.core.domain.access import OutOfScope, Principal
from poisonadmin.core.queries.masking import require_clear
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import EMPTY, Sql, join, name, named_sql, raw
from poisonadmin.decisions.operations.domain.actions import ACTIONS, DELIVERING, OperationAction
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.queries.replays import IS_NEWER_DELIVERED, MAY_BE_PROCESSED, OVERTAKEN
from poisonadmin.groups.domain.annotations import MAX_TAGS_OF_A_MESSAGE
from poisonadmin.messages.domain.states import State
from poisonadmin.policies.queries import policy_index
from poisonadmin.search.queries.owners import account_id

NOT_FOUND = "not_found"
NO_DESTINATION = "no_destination"
OVERSIZED = "oversized"
NOT_MOVED = "not_moved"
CRASHED = "crashed"
LISTED = "listed"
NOT_LISTED = "not_listed"
CONVERSATION_ENDED = "conversation_ended"
NO_OWNER = "no_owner"
TOO_MANY_TAGS = "too_many_tags"
UNCHANGED = "unchanged"
PAYLOAD_REMOVED = "payload_removed"
HELD_BY_PREDECESSOR = "held_by_predecessor"
NEWER_DELIVERED, MAY_HAVE_BEEN_PROCESSED = WAIVABLE
# Those that are about the address to which the message would go.
OF_TARGET = frozenset({NO_DESTINATION, OVERSIZED, LISTED, CONVERSATION_ENDED})

_ENVELOPE = raw("JOIN envelope ON envelope.id = message.id")
_ADDRESS = raw("JOIN address ON address.id = message.address_id")
# `back`: the return address, to which an approval sends a message.
RETURN_ADDRESS = raw("JOIN address AS back ON back.id = coalesce(message.original_address_id, message.address_id)")
# Where a redirected message goes. An address that no message has named yet is as its policy will make it.
_TARGET = raw("""
JOIN (
    SELECT id, name, destination_id, max_payload_bytes, status, is_ordered FROM address WHERE name = %(target)s
    UNION ALL
    SELECT NULL, %(target)s, (SELECT id FROM destination WHERE name = %(target_destination)s), %(target_most_bytes)s,
           'ON', FALSE
    WHERE NOT EXISTS (SELECT FROM address WHERE name = %(target)s)
) AS back ON TRUE
""")
_ANNOTATION = raw("LEFT JOIN annotation AS own ON own.message_id = message.id")
# An approval hands it back to the consumers that reported it, since its address delivers nowhere.
IS_HANDED_BACK = raw("(message.reason IS NOT DISTINCT FROM 'listed' AND back.destination_id IS NULL)")


def joins(action: OperationAction) -> Sql:
    """Return what `message` is joined with: its `address`, its `envelope`, and `back`, where it would go."""
    back = _TARGET if action is OperationAction.REDIRECT else RETURN_ADDRESS
    return _ADDRESS + _ENVELOPE + back + (_ANNOTATION if action is OperationAction.ASSIGN else EMPTY)


def joins_of_delivery(action: OperationAction) -> Sql:
    """Return what an action that delivers needs of `joins` to be carried out: each costs a search a message."""
    return _ENVELOPE + target_join(action)


def target_join(action: OperationAction) -> Sql:
    """Return the join with `back`, where an action sends messages to; it must exist."""
    is_redirect = action is OperationAction.REDIRECT
    return raw("JOIN address AS back ON back.name = %(target)s") if is_redirect else RETURN_ADDRESS


def values(action: OperationAction, params: Mapping[str, Any], principal: Principal) -> dict[str, Any]:
    """Return the parameters of the expression. Errors: `OutOfScope`, for a target that the principal does not see."""
    if action is OperationAction.ASSIGN:
        return _assignment(params, principal)
    # Where nobody was asked, as in a decision on one message, nothing of it is refused.
    waived: dict[str, Any] = {"waived": list(params.get("waive", WAIVABLE)), "overtaken": []}
    if action is not OperationAction.REDIRECT:
        return waived
    target = params["address"]
    if not principal.sees(target):
        raise OutOfScope("params.address", f"address {target}")
    found = policy_index().resolve(target)
    return {
        **waived,
        "target": target,
        "target_destination": found.destination,
        "target_most_bytes": found.policy.max_payload_bytes,
    }


def overtaken(action: OperationAction, members: Sql, known: Mapping[str, Any]) -> list[int]:
    """Return those of `members` that a newer message has overtaken, for the parameter of this name.

    None where that is waived. `known`: what `values` returns, and what `members` needs.
    """
    if action not in DELIVERING or NEWER_DELIVERED in known["waived"]:
        return []
    return fetch_values(str(OVERTAKEN(members=members, target=target_join(action))), known)


def _assignment(params: Mapping[str, Any], principal: Principal) -> dict[str, Any]:
    owner, tags = params.get("owner"), params.get("tags", {})
    owner_id = None if owner is None else account_id(owner, principal)
    sets = {"owner_id": owner_id} if "owner" in params else {}
    if "note" in params:
        sets["note"] = params["note"]
    return {
        "lacks_owner": owner is not None and owner_id is None,
        "sets": json.dumps(sets),
        "tags_added": tags.get("add", []),
        "tags_removed": tags.get("remove", []),
        "revision": None,
    }


def _refusal(starts: Sequence[State], *conditions: tuple[Sql, str], goes_back: bool = False) -> Sql:
    """Return the expression; `conditions`: what else keeps a message in `starts` from being changed, and its code."""
    seen = "message.address_id = ANY(%(visible)s::bigint[])"
    if goes_back:
        seen += " AND back.id = ANY(%(visible)s::bigint[])"
    return named_sql(
        """
CASE WHEN %(visible)s::bigint[] IS NOT NULL AND NOT ({seen}) THEN 'not_found'
     WHEN message.state NOT IN ({starts}) THEN message.state {cases} END
""",
        seen=raw(seen),
        starts=raw(", ".join(f"'{one}'" for one in starts)),
        cases=join("\n     ", (named_sql("WHEN {it} THEN '{code}'", it=it, code=raw(code)) for it, code in conditions)),
    )


# Last: what cannot be delivered at all is refused for that.
_REPLAYED = tuple(
    (named_sql("'{code}' <> ALL(%(waived)s::text[]) AND {it}", code=raw(code), it=condition), code)
    for condition, code in ((IS_NEWER_DELIVERED, NEWER_DELIVERED), (MAY_BE_PROCESSED, MAY_HAVE_BEEN_PROCESSED))
)
_DELIVERS_NOWHERE = (raw("back.destination_id IS NULL"), NO_DESTINATION)
_IS_TOO_LARGE = (raw("envelope.payload_bytes > back.max_payload_bytes"), OVERSIZED)
# A policy had it removed (archive/commands/payloads.py): it is never delivered without.
_HAS_NO_PAYLOAD = (
    raw("EXISTS (SELECT FROM removed_payload AS gone WHERE gone.message_id = message.id)"),
    PAYLOAD_REMOVED,
)
_IS_LISTED = (
    raw("""EXISTS (SELECT FROM poison_entry AS entry WHERE entry.source = back.name AND entry.is_listed
                     AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id))"""),
    LISTED,
)
_HAS_ENDED = (
    raw("""EXISTS (SELECT FROM conversation WHERE conversation.address_id = back.id AND ended_at IS NOT NULL
                     AND conversation.conversation_id = envelope.conversation_id)"""),
    CONVERSATION_ENDED,
)

# Neither was it stopped for its bookmark, nor is an entry for it in force where it is.
_IS_ON_NO_LIST = (
    raw("""message.reason IS DISTINCT FROM 'listed'
          AND NOT EXISTS (SELECT FROM poison_entry AS entry WHERE entry.message_id = message.id AND entry.is_listed)
          AND NOT EXISTS (SELECT FROM poison_entry AS entry WHERE entry.source = address.name AND entry.is_listed
                          AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id))"""),
    NOT_LISTED,
)
_NOT_APPROVED = tuple(
    (named_sql("{one} AND NOT {handed_back}", one=condition, handed_back=IS_HANDED_BACK), code)
    for condition, code in (_HAS_NO_PAYLOAD, _DELIVERS_NOWHERE, _IS_TOO_LARGE)
)

_HAS_NOW = raw("coalesce(own.tags, '{}')::text[]")
_NOT_ASSIGNED = (
    (raw("%(lacks_owner)s"), NO_OWNER),
    (
        named_sql(
            """%(tags_added)s::text[] <> '{{}}' AND cardinality(ARRAY(
          SELECT unnest({has} || %(tags_added)s::text[]) EXCEPT SELECT unnest(%(tags_removed)s::text[])
        )) > {most}""",
            has=_HAS_NOW,
            most=MAX_TAGS_OF_A_MESSAGE,
        ),
        TOO_MANY_TAGS,
    ),
    (
        named_sql(
            """jsonb_build_object('owner_id', own.owner_id, 'note', coalesce(own.note, '')) @> %(sets)s::jsonb
          AND {has} @> %(tags_added)s::text[] AND NOT {has} && %(tags_removed)s::text[]""",
            has=_HAS_NOW,
        ),
        UNCHANGED,
    ),
)
_NDLV = (State.NDLV,)

REFUSALS: dict[OperationAction, Sql] = {action.key: _refusal(action.starts) for action in ACTIONS.values()} | {
    OperationAction.APPROVE: _refusal(_NDLV, *_NOT_APPROVED, *_REPLAYED, goes_back=True),
    OperationAction.RELEASE: _refusal(_NDLV, _IS_ON_NO_LIST, *_NOT_APPROVED, *_REPLAYED, goes_back=True),
    OperationAction.RETURN: _refusal(
        _NDLV,
        (raw("back.id = message.address_id"), NOT_MOVED),
        _HAS_NO_PAYLOAD,
        _DELIVERS_NOWHERE,
        _IS_TOO_LARGE,
        *_REPLAYED,
        goes_back=True,
    ),
    # Whether the change applies, and the result is too large, is not known here (queries/payload_changes.py).
    OperationAction.PATCH: _refusal(_NDLV, _HAS_NO_PAYLOAD, _DELIVERS_NOWHERE, *_REPLAYED, goes_back=True),
    OperationAction.REDIRECT: _refusal(
        _NDLV, _HAS_NO_PAYLOAD, _DELIVERS_NOWHERE, _IS_TOO_LARGE, _IS_LISTED, _HAS_ENDED, *_REPLAYED
    ),
    OperationAction.ASSIGN: _refusal(ACTIONS[OperationAction.ASSIGN].starts, *_NOT_ASSIGNED),
}

# A message `m` may have crashed its consumer whatever it is NDLV for, also where its policy counts no crashes but as
# failures, and a consumer elsewhere may have reported that (SAP-p).
CRASHED_NOTHING = raw("""m.reason IS DISTINCT FROM 'blacklisted' AND m.crash_count = 0
 AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = m.id AND outcome = 'crashed')
 AND NOT EXISTS (SELECT FROM poison_entry WHERE poison_entry.message_id = m.id AND crashes > 0)""")

# Those of `members` that nothing else keeps an operation from delivering, and that a message before them in their
# ordered conversation would hold: one that waits for a decision, and is not among what the operation itself delivers.
_HELD = partial(
    named_sql,
    """
WITH going AS MATERIALIZED (
    SELECT message.id, {place}.id AS address_id, envelope.conversation_id
    FROM {members} JOIN message ON message.id = member.id {joins}
    WHERE EXISTS (SELECT FROM address WHERE is_ordered) AND {place}.is_ordered AND {place}.destination_id IS NOT NULL
      AND envelope.conversation_id IS NOT NULL AND ({refusal}) IS NULL
), near AS MATERIALIZED (
    SELECT message.id, one.address_id, one.conversation_id, ({refusal}) IS NULL AS may_go
    FROM (SELECT address_id, conversation_id, max(id) AS last_id FROM going GROUP BY 1, 2) AS one
         JOIN envelope AS other ON other.conversation_id = one.conversation_id AND other.id < one.last_id
         JOIN message ON message.id = other.id {joins}
    WHERE message.address_id = one.address_id AND message.state = 'NDLV'
), chosen AS (
    SELECT unnest(message_ids) AS id FROM selection_piece
    WHERE selection_id = %(selection)s
      AND first_id <= (SELECT max(id) FROM near) AND last_id >= (SELECT min(id) FROM near)
), parked AS (
    SELECT address_id, conversation_id, min(id) AS id FROM near
    WHERE NOT (may_go AND id IN (SELECT id FROM chosen)) GROUP BY 1, 2
)
SELECT going.id FROM going JOIN parked USING (address_id, conversation_id) WHERE parked.id < going.id
""",
)
OF_SELECTION = raw(
    "(SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = %(selection)s) AS member"
)
OF_IDS = raw("unnest(%(ids)s::bigint[]) AS member (id)")
# With what is in their conversations, where any has to be kept in order.
NEAR_IDS = raw("""(
    SELECT near.id FROM envelope AS mine JOIN envelope AS near ON near.conversation_id = mine.conversation_id
    WHERE mine.id = ANY(%(ids)s::bigint[]) AND EXISTS (SELECT FROM address WHERE is_ordered)) AS member""")


def held(action: OperationAction, members: Sql = OF_SELECTION) -> Sql:
    """Return the query for the ids of `members` of the selection that an operation leaves alone as held (R17)."""
    if action not in {*DELIVERING, OperationAction.DELIVER_NOW}:
        return raw("SELECT NULL::bigint WHERE FALSE")
    place = name("address" if action is OperationAction.DELIVER_NOW else "back")
    return _HELD(place=place, members=members, joins=joins(action), refusal=REFUSALS[action])


def require_in_the_clear(selection_id: int, principal: Principal) -> None:
    """Raise Masked where something of a message of the selection is masked for the principal."""
    members = Sql(
        """FROM selection_piece AS piece CROSS JOIN LATERAL unnest(piece.message_ids) AS member (id)
        JOIN message AS m ON m.id = member.id WHERE piece.selection_id = {selection}""",
        selection=selection_id,
    )
    require_clear(members, principal, "Who changes payloads has to read them whole.")
