"""What must hold after a fault where messages go to handlers: D, F and N, told from what the handler noted.

As in `invariants`: each function returns what is wrong, a line each, and nothing when all is well.
"""

from collections import Counter
from collections.abc import Collection

from tests.faults.invariants import Ask, told
from tests.whole_system.consumer import Arrival

# What may follow an attempt that the handler has seen. `released` says that it had not begun.
BEGUN = frozenset({"delivered", "failed", "crashed", "node_lost", "outcome_lost", "discarded", "moved", "rolled_back"})

_INNOCENT = """
SELECT envelope.message_id, state, reason, candidate, crash_count,
       (SELECT count(*) FROM history WHERE message_id = message.id AND event = 'crashed')
FROM message JOIN envelope USING (id)
"""
_ENDS = "SELECT message_id, attempt_number, event FROM history WHERE from_state = 'DLNG'"


def accused(ask: Ask, guilty: Collection[str], kills: int | None) -> list[str]:
    """N: return messages that were blamed and had killed nothing.

    `kills`: how many sandboxes an outsider has killed, None: who knows. Each is a crash of the message in turn, as
    nobody can tell who sent the signal; one that is hit again while it is tried alone is blacklisted.
    """
    innocent = [row for row in ask(_INNOCENT) if row[0] not in guilty]
    crashes = sum(row[5] for row in innocent)
    blamed = [row for row in innocent if (row[1] != "DLVD" or row[3] or row[4]) and row[5] < 2]
    hit_twice = [row for row in innocent if row[1] == "NDLV" and row[5] >= 2]
    return [
        *told("accused", blamed),
        *told("blacklisted, and nobody had killed its sandbox twice", hit_twice if kills == 0 else []),
        *([f"{crashes} crashes of innocents, {kills} kills"] if kills is not None and crashes > kills else []),
    ]


def spared(ask: Ask, guilty: Collection[str]) -> list[str]:
    """N: return messages that killed their process and were not blacklisted after two crashes."""
    rows = [row for row in ask(_INNOCENT) if row[0] in guilty]
    return told("kills, and is not blacklisted", [row for row in rows if row[1:5] != ("NDLV", "blacklisted", True, 2)])


def unexplained(ask: Ask, arrivals: Collection[Arrival]) -> list[str]:
    """D: return attempts that the handler saw twice, or that the history takes for not begun."""
    ends = {(message, attempt): event for message, attempt, event in ask(_ENDS)}
    seen = Counter((one.message_id, one.attempt) for one in arrivals)
    return [
        *told("seen twice under one attempt number", [key for key, times in seen.items() if times > 1]),
        *told(
            "seen, and not begun by its history", [(*key, ends.get(key)) for key in seen if ends.get(key) not in BEGUN]
        ),
    ]


def repeated(ask: Ask, arrivals: Collection[Arrival]) -> int:
    """Return how many messages were handled again because nobody knows how far the former attempt came."""
    return len(
        {row[0] for row in ask(_ENDS) if row[2] in {"node_lost", "outcome_lost"}} & {a.message_id for a in arrivals}
    )


_LEASES = """
, taken AS (
    SELECT claim_id, shard, unnest(message_ids) AS message_id FROM public.claim_shard
)
SELECT message_id, row_number() OVER (PARTITION BY message_id ORDER BY taken.claim_id),
       extract(epoch FROM node.lease_until)::float8
FROM taken JOIN message ON message.id = message_id
     LEFT JOIN public.node ON node.claim_id = taken.claim_id AND node.shard = taken.shard
"""


def past_the_lease(ask: Ask, arrivals: Collection[Arrival]) -> list[str]:
    """F: return attempts that the handler saw after the lease of their node had ended, or without a node."""
    leases = {(message, attempt): until for message, attempt, until in ask(_LEASES)}
    late = [
        (one.message_id, one.attempt, leases.get((one.message_id, one.attempt)))
        for one in arrivals
        if one.at > (leases.get((one.message_id, one.attempt)) or 0.0)
    ]
    return told("begun past the lease", late)
