"""What a destination asks for when it answers "later" (RFC 9110, section 10.2.3)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000
_SECONDS = re.compile(r"[0-9]{1,12}\Z")


def retry_after_ms(value: str, *, now: datetime) -> int | None:
    """Return the wait that a `Retry-After` value asks for, in milliseconds; None when it cannot be read.

    Units and range: 0 to 24 hours; a longer wish is cut to that, a date that has passed is 0.

    >>> retry_after_ms("120", now=datetime(2026, 1, 1, tzinfo=UTC))
    120000
    >>> retry_after_ms("Thu, 01 Jan 2026 00:00:30 GMT", now=datetime(2026, 1, 1, tzinfo=UTC))
    30000
    """
    text = value.strip()
    if _SECONDS.match(text):
        return min(int(text) * 1000, MAX_RETRY_AFTER_MS)
    if not text.isascii() or len(text) > 64:
        return None
    try:
        at = parsedate_to_datetime(text)
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return max(0, min(int(wait.total_seconds() * 1000), MAX_RETRY_AFTER_MS))
