"""The outcomes of delivery tries, and of the members of an operation."""

from enum import StrEnum


class Outcome(StrEnum):
    """The result of a try.

    `crashed`: its sandbox crashed with it, or the connection was lost where that counts as a crash; `node_lost`: it had
    begun on a node that was lost. `suspected` is an old one, written no more: it was in delivery when another message
    crashed. A handler may answer `discarded`, `moved`, `rolled_back`, `conversation_ended`. `ruled`: a content
    rule decided before anything was delivered. `imported` is the failure that a dead letter had before its import,
    attempt 0; `returned`: the broker gave the message back after it had taken it.
    """

    DELIVERED = "delivered"
    FAILED = "failed"
    CRASHED = "crashed"
    NODE_LOST = "node_lost"
    SUSPECTED = "suspected"
    DISCARDED = "discarded"
    MOVED = "moved"
    ROLLED_BACK = "rolled_back"
    CONVERSATION_ENDED = "conversation_ended"
    RULED = "ruled"
    IMPORTED = "imported"
    RETURNED = "returned"


# Those of crashed processes. Rare beside failures, so an index of its own stays small.
CRASHES = (Outcome.CRASHED, Outcome.NODE_LOST, Outcome.SUSPECTED)
# After these the next message of an ordered conversation may be delivered.
LETS_FOLLOW = frozenset({Outcome.DELIVERED, Outcome.DISCARDED, Outcome.MOVED})


class MemberOutcome(StrEnum):
    """The outcome of a member. WAITING: it failed, and is delivered again by its policy. UNANSWERED: nothing yet."""

    DELIVERED = "delivered"
    CONFIRMED = "confirmed"
    FAILED_SAME = "failed_same"
    FAILED_NEW = "failed_new"
    BLACKLISTED = "blacklisted"
    SKIPPED = "skipped"
    WAITING = "waiting"
    UNANSWERED = "unanswered"
    CANCELLED = "cancelled"
    CHANGED = "changed"


# Why what a cancelled operation had taken away for a member is not put back.
DECIDED_SINCE = "decided_since"
# What may have a row of its own.
RECORDED = tuple(one for one in MemberOutcome if one is not MemberOutcome.UNANSWERED)
