"""Why a decision leaves a message alone: one expression each, for carrying it out and for its preview.

An expression is NULL for a message that the decision may change, else a code below, or the state that the message is
in. It needs `JOINS`, and the parameter `visible`: the ids of the addresses that who decides sees, NULL for all.
"""

from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.operations.domain.actions import ACTIONS, OperationAction

NOT_FOUND = "not_found"
NO_DESTINATION = "no_destination"
OVERSIZED = "oversized"
NOT_MOVED = "not_moved"
CRASHED = "crashed"

# `back`: the return address, to which an approval sends a message.
JOINS = """
JOIN address ON address.id = message.address_id JOIN envelope ON envelope.id = message.id
JOIN address AS back ON back.id = coalesce(message.original_address_id, message.address_id)
"""
# An approval hands it back to the consumers that reported it, since its address delivers nowhere.
IS_HANDED_BACK = f"(message.reason IS NOT DISTINCT FROM '{Reason.LISTED}' AND back.destination_id IS NULL)"


def _refusal(start: State, *conditions: tuple[str, str], goes_back: bool = False) -> str:
    """Return the expression; `conditions`: what else keeps a message in `start` from being changed, and its code."""
    seen = "message.address_id = ANY(%(visible)s::bigint[])"
    if goes_back:
        seen += " AND back.id = ANY(%(visible)s::bigint[])"
    cases = "".join(f"\n     WHEN {condition} THEN '{code}'" for condition, code in conditions)
    return f"""
CASE WHEN %(visible)s::bigint[] IS NOT NULL AND NOT ({seen}) THEN '{NOT_FOUND}'
     WHEN message.state <> '{start}' THEN message.state{cases} END
"""


_DELIVERS_NOWHERE = ("back.destination_id IS NULL", NO_DESTINATION)
_IS_TOO_LARGE = ("envelope.payload_bytes > back.max_payload_bytes", OVERSIZED)

REFUSALS: dict[OperationAction, str] = {action.key: _refusal(action.start) for action in ACTIONS.values()} | {
    OperationAction.APPROVE: _refusal(
        State.NDLV,
        (f"{_DELIVERS_NOWHERE[0]} AND NOT {IS_HANDED_BACK}", NO_DESTINATION),
        (f"{_IS_TOO_LARGE[0]} AND NOT {IS_HANDED_BACK}", OVERSIZED),
        goes_back=True,
    ),
    OperationAction.RETURN: _refusal(
        State.NDLV, ("back.id = message.address_id", NOT_MOVED), _DELIVERS_NOWHERE, _IS_TOO_LARGE, goes_back=True
    ),
}

# A message `m` may have crashed its consumer whatever it is NDLV for, also where its policy counts no crashes but as
# failures, and a consumer elsewhere may have reported that (SEMANTICS SAP-p).
CRASHED_NOTHING = f"""m.reason IS DISTINCT FROM '{Reason.BLACKLISTED}' AND m.crash_count = 0
 AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = m.id AND outcome = '{Outcome.CRASHED}')
 AND NOT EXISTS (SELECT FROM poison_entry WHERE poison_entry.message_id = m.id AND crashes > 0)"""  # noqa: S608  (fragments are constants)
