"""What one more crash would lead to, in words, for the dialog that asks whether to approve."""

from collections.abc import Sequence

from poisonadmin.messages.queries.approval_warnings import ApprovalWarning, approval_warnings
from poisonadmin.messages.queries.lists import MessageRow


def warnings(rows: Sequence[MessageRow]) -> list[str]:
    """Return a sentence for each outlook that the approved messages have; empty when none of them ever crashed."""
    return [sentence(outlook, n, total=len(rows)) for outlook, n in approval_warnings(rows)]


def sentence(outlook: ApprovalWarning, n: int, *, total: int) -> str:
    """Return what awaits `n` of `total` messages, which crashed what processed them.

    >>> sentence(ApprovalWarning(1), 1, total=1)
    'It crashed what processed it before. It is delivered alone, and one more crash blacklists it again.'
    >>> sentence(ApprovalWarning(2, is_cleared=True), 3, total=5)
    '3 of them crashed what processed them before. The policy forgets that on approval: 2 crashes blacklist them again.'
    """
    they, them = ("It is", "it") if n == 1 else ("They are", "them")
    who = "It" if total == 1 else f"All {n:,}" if n == total else f"{n:,} of them"
    start = f"{who} crashed what processed {them} before."
    if outlook.crashes is None:
        return f"{start} The policy has blacklisting switched off: after every crash there is another delivery."
    several = outlook.crashes > 1
    again = "" if several and not outlook.is_cleared else " again"
    stops = (
        f"put{'' if several else 's'} {them} on the poison list"
        if outlook.is_listed
        else f"blacklist{'' if several else 's'} {them}{again}"
    )
    if outlook.is_cleared:
        crashes = f"{outlook.crashes} crashes" if several else "one crash"
        return f"{start} The policy forgets that on approval: {crashes} {stops}."
    crashes = f"{outlook.crashes} more crashes" if several else "one more crash"
    return f"{start} {they} delivered {'alone' if outlook.is_alone else 'among others'}, and {crashes} {stops}."
