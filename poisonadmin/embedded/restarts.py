"""When a child that has ended is started again."""

FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 15.0
# A child that ran this long was well, and its next end counts as the first one.
WELL_AFTER_SECONDS = 30.0


def failures_in_a_row(before: int, *, ran_seconds: float) -> int:
    """Return how many times in a row a child has now ended early, this time included.

    >>> failures_in_a_row(3, ran_seconds=0.5), failures_in_a_row(3, ran_seconds=60)
    (4, 1)
    """
    return 1 if ran_seconds >= WELL_AFTER_SECONDS else before + 1


def delay_before_restart(failures: int) -> float:
    """Return the seconds to wait before the start that follows `failures` early ends in a row.

    >>> [delay_before_restart(failures) for failures in (1, 2, 3, 8, 1000)]
    [0.2, 0.4, 0.8, 15.0, 15.0]
    """
    return min(FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_DELAY_SECONDS)
