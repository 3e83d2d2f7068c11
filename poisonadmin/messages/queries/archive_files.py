"""Which files of the archive stand for rows that are no longer in the database."""

from collections.abc import Collection, Iterator
from datetime import date

from django.conf import settings

from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_given
from poisonadmin.messages.queries.archived_index import ArchiveUnreadable, require_as_written


def archived_files(table: str, *, since: date | None = None, until: date | None = None) -> list[str]:
    """Return the paths or URLs of a table's files; of messages that ended from `since` to `until`.

    Rows in them that do not count (`archive_left_out`) are left out by who reads them: workers/spark/tables/source.py.
    """
    those = all_given({"table_name = {value}": table, "day >= {value}": since, "day <= {value}": until})
    paths = Sql("SELECT path FROM archive_file WHERE is_current AND {those} ORDER BY day, id", those=those)
    return [within(settings.ARCHIVE, path) for path in fetch_values(paths)]


def damaged_files() -> Iterator[tuple[str, str]]:
    """Yield each file that counts and is not what was written, by its checksum, and why; it reads the whole archive."""
    for path, sha256 in fetch_rows("SELECT path, sha256 FROM archive_file WHERE is_current ORDER BY day, id"):
        try:
            require_as_written(path, sha256)
        except ArchiveUnreadable as error:
            # One that was written anew since is gone.
            if fetch_values("SELECT 1 FROM archive_file WHERE is_current AND path = %s", [path]):
                yield path, error.detail


def files_of_pieces(pieces: Collection[int], table: str) -> list[str]:
    """Return the paths or URLs of the files that have a table's rows of these pieces."""
    sql = "SELECT path FROM archive_file WHERE is_current AND table_name = %s AND piece_id = ANY(%s) ORDER BY id"
    return [within(settings.ARCHIVE, path) for path in fetch_values(sql, [table, list(pieces)])]
