"""What must hold after any fault, as code in one place: L, D, F, N, A, C and P of docs/operate/reliability.md.

Each function returns what is wrong, a line each, and nothing when all is well. `ask` runs a query and returns its rows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from poisonadmin.messages.domain.states import Event, State, allowed
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_schedule import explain
from tests.whole_system.consumer import Arrival

Rows = list[tuple[Any, ...]]
Ask = Callable[..., Rows]

# What a broken invariant shows of itself; the count of all is in the line before.
_SHOWN = 5

_CHAINS = """
SELECT message.id, seq, from_state, to_state, event, history.attempt_number, history.at, message.state,
       message.attempt_number
FROM message LEFT JOIN history ON message_id = message.id ORDER BY message.id, seq
"""


def all_broken(ask: Ask) -> list[str]:
    """Return what is wrong whatever the fault was and wherever the messages stand."""
    return [*broken_chains(ask), *wrong_counters(ask), *sleeping(ask), *stale_writes(ask), *torn(ask), *stuck(ask)]


def lost(ask: Ask, accepted: Collection[str], arrivals: Iterable[Arrival]) -> list[str]:
    """L: return the message ids that were accepted and are not there, and the DLVD ones that no consumer has taken."""
    here = {message_id for (message_id,) in ask("SELECT message_id FROM envelope JOIN message USING (id)")}
    taken = {(one.message_id, one.attempt) for one in arrivals if one.is_taken}
    delivered = ask("SELECT id, attempt_number FROM message WHERE state = 'DLVD'")
    return [
        *told("accepted and gone", sorted(set(accepted) - here)),
        *told("DLVD, but no consumer has taken it", sorted(set(delivered) - taken)),
    ]


def torn(ask: Ask) -> list[str]:
    """L: return messages of which one of the three rows is missing, and staged rows that nobody will merge."""
    return [
        *told("message without its envelope or body", _ids(ask, _TORN)),
        *told("envelope without its message", _ids(ask, _TORN_ENVELOPE)),
    ]


_TORN = """
SELECT message.id FROM message LEFT JOIN envelope USING (id) LEFT JOIN body USING (id)
WHERE envelope.id IS NULL OR body.id IS NULL
"""
_TORN_ENVELOPE = "SELECT id FROM envelope LEFT JOIN message USING (id) WHERE message.id IS NULL"


def duplicates(arrivals: Iterable[Arrival]) -> dict[int, list[int]]:
    """Return the messages that consumers took more than once, each with the attempts in which they did."""
    taken: dict[int, list[int]] = {}
    for one in arrivals:
        if one.is_taken:
            taken.setdefault(one.message_id, []).append(one.attempt)
    return {message_id: sorted(attempts) for message_id, attempts in taken.items() if len(attempts) > 1}


def untraceable(ask: Ask, arrivals: Collection[Arrival]) -> list[str]:
    """D: return deliveries that happened twice under one number, or that the history does not own up to.

    A message may be taken again only when the attempt before it is in the history as `outcome_lost`, or when its
    answer came back as a failure (the consumer took it and said so too late).
    """
    twice = [key for key, n in Counter((one.message_id, one.attempt) for one in arrivals).items() if n > 1]
    owned = {(message_id, attempt): event for message_id, attempt, event in ask(_ENDS)}
    not_owned = [
        (message_id, attempt, owned.get((message_id, attempt)))
        for message_id, attempts in duplicates(arrivals).items()
        for attempt in attempts
        if owned.get((message_id, attempt)) not in {"delivered", "outcome_lost", "failed"}
    ]
    return [
        *told("delivered twice under one attempt number", sorted(twice)),
        *told("taken more than once, and the history does not say why", not_owned),
    ]


_ENDS = "SELECT message_id, attempt_number, event FROM history WHERE from_state = 'DLNG'"


def stale_writes(ask: Ask) -> list[str]:
    """F: return transitions out of DLNG that contradict what the node of that very attempt wrote."""
    return [
        *told("settled without the outcome it was settled by", _ids(ask, _UNFOUNDED)),
        *told("released as not begun, and begun all the same", _ids(ask, _BEGUN_ALL_THE_SAME)),
    ]


_UNFOUNDED = """
SELECT message_id, attempt_number, event FROM history WHERE event IN ('delivered', 'failed') AND from_state = 'DLNG'
AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = history.message_id
                AND attempt.attempt_number = history.attempt_number
                AND (outcome = event OR outcome = 'returned' AND event = 'delivered'))
"""
_BEGUN_ALL_THE_SAME = """
SELECT message_id, attempt_number FROM history JOIN attempt USING (message_id, attempt_number)
WHERE event = 'released'
"""


def accused(ask: Ask, guilty: Collection[str] = ()) -> list[str]:
    """N: return messages that were flagged, counted or stopped although nobody had refused them.

    `guilty` are the message ids that a consumer was told to refuse, or a person to stop.
    """
    rows = ask("SELECT envelope.message_id, state, reason, failure_count, crash_count, candidate " + _SUSPECT)
    return told("accused", [row for row in rows if row[0] not in set(guilty)])


_SUSPECT = """
FROM message JOIN envelope USING (id)
WHERE candidate OR crash_count > 0 OR failure_count > 0 OR state IN ('NDLV', 'FAIL')
"""


def broken_chains(ask: Ask) -> list[str]:
    """A: return the messages whose history does not lead, by legal steps, from their intake to where they are."""
    wrong: list[str] = []
    for message_id, rows in groupby(ask(_CHAINS), key=lambda row: row[0]):
        steps = list(rows)
        if steps[0][1] is None:
            wrong.append(f"{message_id}: no history")
            continue
        wrong += [f"{message_id}: {what}" for what in _breaks(steps)]
        _, _, _, last_state, _, last_attempt, _, state, attempt = steps[-1]
        if (state, attempt) != (last_state, last_attempt):
            wrong.append(f"{message_id}: is {(state, attempt)}, its history ends in {(last_state, last_attempt)}")
    return told("broken history", wrong)


def _breaks(steps: Rows) -> Iterable[str]:
    state, attempt = None, 0
    for _, _, from_state, to_state, event, attempt_number, *_ in steps:
        # The archive gives back what was final, as a beginning behind all that was before.
        is_back = event == Event.RESTORED_FROM_ARCHIVE and from_state is None and state in (State.DLVD, State.FAIL)
        if from_state != state and not is_back:
            yield f"{event} leaves {from_state}, and it was {state}"
        if to_state not in allowed(State(from_state) if from_state else None, Event(event)):
            yield f"{event} led from {from_state} to {to_state}"
        if attempt_number != attempt + (event == "claimed"):
            yield f"{event} has attempt {attempt_number} after {attempt}"
        state, attempt = to_state, attempt_number


def wrong_counters(ask: Ask) -> list[str]:
    """C: return the counters that differ from a full count."""
    return told("counter and full count differ", ask(_COUNTERS))


_COUNTERS = """
SELECT address_id, state, reason, group_id, original_address_id, sum(counted) AS counted, sum(there) AS there FROM (
    SELECT address_id, state, reason, group_id, original_address_id, total AS counted, 0 AS there FROM counter
    UNION ALL SELECT address_id, state, reason, group_id, original_address_id, delta, 0 FROM counter_delta
    UNION ALL SELECT address_id, state, reason, group_id, original_address_id, 0, 1 FROM message
) AS both_sides GROUP BY 1, 2, 3, 4, 5 HAVING sum(counted) <> sum(there)
"""


def sleeping(ask: Ask) -> list[str]:
    """L: return waiting messages that no claim will find, because they are due below the floor of their lane.

    What a predecessor in its conversation or its operation holds back is found again when that one goes on.
    """
    return told("below the floor of its lane", _ids(ask, _SLEEPING))


_SLEEPING = """
SELECT message.id
FROM message JOIN lane ON lane.id = message.lane_id LEFT JOIN operation ON operation.id = message.operation_id
WHERE message.state = 'TBDL' AND (lane.next_due IS NULL OR due_at < lane.next_due)
  AND (operation.ended_at IS NULL AND operation.state <> 'running') IS NOT TRUE
  AND (lane.conversation_id IS NULL OR NOT EXISTS (
      SELECT FROM envelope JOIN message AS before ON before.id = envelope.id
      WHERE conversation_id = lane.conversation_id AND before.address_id = message.address_id
        AND before.id < message.id AND before.state IN ('TBDL', 'DLNG', 'NDLV')))
"""


def stuck(ask: Ask) -> list[str]:
    """L: return messages in DLNG more than 10 s past the lease of whoever holds them."""
    return told("stuck in DLNG", _ids(ask, _STUCK))


_STUCK = """
SELECT message.id FROM message LEFT JOIN claim ON claim.id = message.claim_id
     LEFT JOIN node ON node.claim_id = message.claim_id AND node.shard = message.shard
WHERE state = 'DLNG' AND coalesce(node.lease_until, claim.lease_until, '-infinity') < now() - interval '10 s'
"""


def early(ask: Ask, policy_of: Callable[[str], Policy], arrivals: Iterable[Arrival]) -> list[str]:
    """P: return attempts that were claimed, or came to a consumer, before the wait of their policy was over.

    The wait counts from the end of the failed attempt, by the database's clock.
    """
    addresses = dict(ask("SELECT envelope.id, name FROM envelope JOIN address ON address.id = intake_address_id"))
    came = {(one.message_id, one.attempt): one.at for one in arrivals}
    ended = {(message_id, attempt): at for message_id, attempt, at in ask(_FAILED)}
    wrong = []
    for message_id, steps in groupby(ask(_CHAINS), key=lambda row: row[0]):
        not_before: datetime | None = None
        failures = 0
        for _, _, _, to_state, event, attempt, at, *_ in steps:
            if event == "claimed" and not_before is not None:
                if at < not_before:
                    wrong.append(f"{message_id}: attempt {attempt} claimed {not_before - at} early")
                if came.get((message_id, attempt), float("inf")) < not_before.timestamp():
                    wrong.append(f"{message_id}: attempt {attempt} came early")
            failures = failures + 1 if event == "failed" else 0 if event == "approved" else failures
            if event in {"failed", "approved", "deliver_now"}:
                not_before = None
            if event == "failed" and to_state == "TBDL":
                wait = explain(policy_of(addresses[message_id]), failures, message_id, attempt).delay
                not_before = ended[message_id, attempt] + timedelta(milliseconds=wait)
    return told("early", wrong)


_FAILED = """
SELECT message_id, attempt.attempt_number, finished_at FROM attempt JOIN message ON message.id = message_id
WHERE outcome = 'failed'
"""


def states(ask: Ask) -> Mapping[str, int]:
    """Return how many messages are in each state."""
    return dict(ask("SELECT state, count(*) FROM message GROUP BY 1"))


def _ids(ask: Ask, query: str) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in ask(query)]


def told(what: str, found: Collection[Any]) -> list[str]:
    """Return a line that says how many there are and shows the first; nothing where there is none."""
    if not found:
        return []
    shown = "; ".join(str(one) for one in list(found)[:_SHOWN])
    return [f"{what}: {len(found)} ({shown}{' …' if len(found) > _SHOWN else ''})"]
