"""Ranges of ids with about as many messages each, however the ids are spread."""

from django.db import connection

from poisonadmin.messages.domain.id_ranges import IdRange

_LAST = "SELECT id FROM message WHERE id <= %s ORDER BY id DESC OFFSET %s LIMIT 1"
_NEXT = "SELECT id FROM message WHERE id > %s AND id <= %s ORDER BY id OFFSET %s LIMIT 1"


def next_ranges(after: int, cut_off: int, *, messages: int, most: int) -> list[IdRange]:
    """Return the next ranges above `after`, of so many messages each, the last one up to `cut_off`."""
    ranges: list[IdRange] = []
    with connection.cursor() as cursor:
        while after < cut_off and len(ranges) < most:
            cursor.execute(_NEXT, [after, cut_off, messages - 1])
            row = cursor.fetchone()
            until = row[0] if row else cut_off
            ranges.append(IdRange(after, until))
            after = until
    return ranges


def last_ranges(until: int, *, messages: int, most: int) -> list[IdRange]:
    """Return the last ranges up to `until`, the last one first, of so many messages each; the first begins at 0."""
    ranges: list[IdRange] = []
    with connection.cursor() as cursor:
        while until > 0 and len(ranges) < most:
            cursor.execute(_LAST, [until, messages])
            row = cursor.fetchone()
            after = row[0] if row else 0
            ranges.append(IdRange(after, until))
            until = after
    return ranges
