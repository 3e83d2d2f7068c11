"""Removes rows that nothing needs any more after a run of the archive."""

from django.db import connection

_FORGET_WORDS = """
DELETE FROM failure_words WHERE id > %(after)s AND id <= %(until)s AND NOT EXISTS (
    SELECT FROM unnest(message_ids) AS one (id) JOIN message ON message.id = one.id)
"""
_WORDS_A_PIECE = 20_000


def forget_words() -> None:
    """Remove the words of failures' messages that no message in the database has any more."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(id), 1) - 1, coalesce(max(id), 0) FROM failure_words")
        after, last = cursor.fetchone()
        while after < last:
            cursor.execute(_FORGET_WORDS, {"after": after, "until": after + _WORDS_A_PIECE})
            after += _WORDS_A_PIECE
