"""Slots: the moments at which the deliveries of something with a rate begin, reserved a claim at a time.

The slots of two claims never overlap, and no delivery begins outside of those of its claim, so that no second sees more
than the rate and one.
"""

# How far ahead a claim reserves slots; shorter than the time in which a task may begin deliveries.
HORIZON_SECONDS = 1.0
# Slots begin so long after their claim: a task has to take it up first, and what it missed would be lost to the rate.
LEAD_SECONDS = 0.25
# A claim of a few messages has so long to begin them.
LEAST_SPAN_SECONDS = 0.25
# Each second is so much longer than its slots: what the timers and the way to the consumer may add to a slot.
SLACK_SECONDS = 0.03
# The part of it that timers may use.
LATE_SECONDS = 0.02


def slot_distance(rate: float) -> float:
    """Return how far two slots are apart, in seconds; `rate`: deliveries a second."""
    return (1 + SLACK_SECONDS) / rate


def slots_ahead(rate: float, reserved_seconds: float) -> int:
    """Return how many slots a claim may reserve: those left within the horizon, or the next one where that is later.

    0 while more than half of the horizon is reserved: so each claim is made well before its slots come, and few
    claims of many messages are made instead of many of few.
    """
    if reserved_seconds > HORIZON_SECONDS / 2:
        return 0
    return max(int((HORIZON_SECONDS - reserved_seconds) * rate), 1)


def end_of_slots(first: float, last: float, rate: float) -> float:
    """Return when the slots of a claim end and those of the next may begin; Unix seconds."""
    return max(last + slot_distance(rate), first + LEAST_SPAN_SECONDS)
