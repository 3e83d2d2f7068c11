"""What one more crash would lead to, in words, for the dialog that asks whether to approve."""

from collections.abc import Sequence

from poisonadmin.messages.queries.approval_warnings import ApprovalWarning, approval_warnings
from poisonadmin.messages.queries.lists import MessageRow


def warnings(rows: Sequence[MessageRow]) -> list[str]:
    """Return a sentence for each warning that the approved messages have; empty when none of them ever crashed."""
    return [sentence(warning, n, total=len(rows)) for warning, n in approval_warnings(rows)]


def sentence(warning: ApprovalWarning, n: int, *, total: int) -> str:
    """Return what awaits `n` of `total` messages, which crashed their consumer.

    >>> sentence(ApprovalWarning(1), 1, total=1)
    'It crashed its consumer before. It is delivered alone, and one more crash blacklists it again.'
    >>> sentence(ApprovalWarning(2, is_cleared=True), 3, total=5)
    '3 of them crashed their consumer before. Approval resets the count: 2 crashes blacklist them again.'
    """
    they, them, their = ("It is", "it", "its") if n == 1 else ("They are", "them", "their")
    who = "It" if total == 1 else f"All {n:,}" if n == total else f"{n:,} of them"
    start = f"{who} crashed {their} consumer before."
    if warning.crashes is None:
        return f"{start} The policy switches blacklisting off: every crash is followed by another delivery."
    several = warning.crashes > 1
    again = "" if several and not warning.is_cleared else " again"
    stops = (
        f"put{'' if several else 's'} {them} on the poison list"
        if warning.is_listed
        else f"blacklist{'' if several else 's'} {them}{again}"
    )
    if warning.is_cleared:
        crashes = f"{warning.crashes} crashes" if several else "one crash"
        return f"{start} Approval resets the count: {crashes} {stops}."
    crashes = f"{warning.crashes} more crashes" if several else "one more crash"
    return f"{start} {they} delivered {'alone' if warning.is_alone else 'among others'}, and {crashes} {stops}."
