"""A canary: an operation tries 1 message, then 10, then 100, before it decides on all."""

from poisonadmin.decisions.operations.domain.ledger import Ledger

# How many members have been decided on at the end of each stage.
STAGE_ENDS = (1, 11, 111)
# Of those that were answered. One alone may fail by chance once there are enough others.
MOST_FAILED_SHARE = 0.1


def why_halt(ledger: Ledger) -> str | None:
    """Return why the operation should stop by itself, None when it should not.

    >>> why_halt(Ledger(delivered=10, unanswered=5)), why_halt(Ledger(delivered=20, failed_same=1))
    (None, None)
    >>> why_halt(Ledger(delivered=4, failed_same=1))
    '1 of 5 failed again (20 %).'
    >>> why_halt(Ledger(delivered=99, failed_new=1))
    '1 failed with another failure than before.'
    """
    if ledger.blacklisted:
        return f"{ledger.blacklisted:,} crashed the consumer."
    if ledger.failed_new:
        return f"{ledger.failed_new:,} failed with another failure than before."
    answered = ledger.delivered + ledger.confirmed + ledger.failed_same
    if answered and ledger.failed_same / answered > MOST_FAILED_SHARE:
        share = 100 * ledger.failed_same / answered
        return f"{ledger.failed_same:,} of {answered:,} failed again ({share:.0f} %)."
    return None
