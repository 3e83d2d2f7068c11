"""What one more crash would lead to, in words, for the dialog that asks whether to approve."""

from collections.abc import Iterable

from poisonadmin.queries.approval import Outlook, outlooks
from poisonadmin.queries.messages import MessageRow


def warnings(rows: Iterable[MessageRow]) -> list[str]:
    """Return a sentence for each outlook that the approved messages have; empty when none of them ever crashed."""
    return [sentence(outlook, n) for outlook, n in outlooks(rows)]


def sentence(outlook: Outlook, n: int) -> str:
    """Return what awaits `n` messages that crashed what processed them.

    >>> sentence(Outlook(1), 1)
    '1 crashed what processed it before: delivered alone, one more crash blacklists it again.'
    >>> sentence(Outlook(2, is_cleared=True), 3)
    '3 crashed what processed them before. The policy forgets that on approval: 2 crashes blacklist them again.'
    """
    them = "it" if n == 1 else "them"
    start = f"{n:,} crashed what processed {them} before"
    if outlook.crashes is None:
        return f"{start}. The policy has blacklisting switched off: after every crash there is another delivery."
    several = outlook.crashes > 1
    again = "" if several and not outlook.is_cleared else " again"
    stops = (
        f"put{'' if several else 's'} {them} on the poison list"
        if outlook.is_listed
        else (f"blacklist{'' if several else 's'} {them}{again}")
    )
    if outlook.is_cleared:
        crashes = f"{outlook.crashes} crashes" if several else "one crash"
        return f"{start}. The policy forgets that on approval: {crashes} {stops}."
    crashes = f"{outlook.crashes} more crashes" if several else "one more crash"
    return f"{start}: delivered {'alone' if outlook.is_alone else 'among others'}, {crashes} {stops}."
