"""The outcomes that a member of an operation can have."""

from enum import StrEnum


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


# What may have a row of its own.
RECORDED = tuple(one for one in MemberOutcome if one is not MemberOutcome.UNANSWERED)
