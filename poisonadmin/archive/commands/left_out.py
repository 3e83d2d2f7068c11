"""Rows in files that do not count, since their message came back, go when no file may have them."""

from collections.abc import Callable, Collection

from django.db import connection, transaction

from poisonadmin.archive.commands import rewriting
from poisonadmin.archive.commands.rewriting import FileStore
from poisonadmin.archive.domain.pieces import Rewrite
from poisonadmin.core.commands import locks
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows

_WITH_PAYLOADS = """
SELECT piece_id, array_agg(message_id) FROM archive_left_out JOIN removed_payload USING (message_id)
GROUP BY piece_id ORDER BY piece_id LIMIT 1
"""


def rewritten_without(store: FileStore, piece_id: int, ids: Collection[int]) -> bool:
    """Write the files of a piece anew without rows that do not count; return False while somebody reads the tables."""
    replaced = rewriting.written_anew(store, piece_id, Rewrite(without=ids))
    with transaction.atomic(), connection.cursor() as cursor:
        is_alone = locks.try_lock(cursor, Lock.TABLES)
        if is_alone:
            rewriting.put_in_place(replaced)
            cursor.execute(
                "DELETE FROM archive_left_out WHERE piece_id = %s AND message_id = ANY(%s)", [piece_id, list(ids)]
            )
    if is_alone:
        rewriting.tidy(store, piece_id)
    else:
        rewriting.remove_former(store)
    return is_alone


def remove_copies(store: FileStore, must_pause: Callable[[], bool]) -> bool | None:
    """Remove former copies of messages whose payloads are removed; return whether none is left, and None while somebody
    reads the tables.
    """
    while rows := fetch_rows(_WITH_PAYLOADS):
        if must_pause():
            return False
        if not rewritten_without(store, *rows[0]):
            return None
    return True
