"""Confirmations: what the consumer behind a broker says of a delivered message."""

from enum import StrEnum


class Confirming(StrEnum):
    """How a delivered message stands with the consumer behind its broker; `unanswered`: its confirmation is overdue."""

    AWAITED = "awaited"
    UNANSWERED = "unanswered"
    CONFIRMED = "confirmed"
