"""Which queues and topics are named as those of dead letters usually are."""

_SIGNS = ("dlq", "dead", "error", "poison", "parking")


def is_named_for_dead_letters(name: str, *more_signs: str) -> bool:
    """Return whether a name has one of the usual signs, or one of this broker's own.

    >>> [is_named_for_dead_letters(name, "dlt") for name in ("Orders.DLQ", "orders-dlt", "orders")]
    [True, True, False]
    """
    return any(sign in name.lower() for sign in (*_SIGNS, *more_signs))
