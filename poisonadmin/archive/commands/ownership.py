"""An archive carries the id of its installation: nothing is archived, restored or removed in another one's.

An empty archive gets the id. So does one of an earlier version, when it has the latest file that the database knows.
"""

from typing import Any

from django.conf import settings

from poisonadmin.core.domain.archive_place import RUN, within
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.messages.queries.archived_index import archive_file_system

MARKER = "installation"
# When its database was made: it is in every backup, and no two are made in one microsecond.
_ID = "SELECT to_char(min(applied) AT TIME ZONE 'UTC', 'YYYYMMDD\"T\"HH24MISSUS') FROM django_migrations"
_LATEST = "SELECT path FROM archive_file WHERE is_current ORDER BY id DESC LIMIT 1"


class ForeignArchive(PoisonAdminError):
    """Raised when the archive is not this installation's; nothing was archived, restored or removed."""

    code = "archive_foreign"
    status = 503


def archive_id() -> str:
    """Return the id that the archive has; empty where it has none."""
    where, begin = archive_file_system(settings.ARCHIVE)
    try:
        with where.open_input_stream(f"{begin.rstrip('/')}/{MARKER}") as stream:
            return str(stream.read(100).decode("ascii", "replace").strip())
    except FileNotFoundError:
        return ""


def is_foreign() -> bool:
    """Return whether the archive has the id of another installation."""
    return archive_id() not in ("", fetch_values(_ID)[0])


def require_own_archive() -> None:
    """Do nothing where the archive has this installation's id. Errors: `ForeignArchive`."""
    own, found = fetch_values(_ID)[0], archive_id()
    if found == own:
        return
    where, begin = archive_file_system(settings.ARCHIVE)
    if found or not _is_ours(where, begin):
        whose = f"it has the id {found}" if found else "it lacks the id, and has not what the database knows of it"
        raise ForeignArchive(
            f"The archive {settings.ARCHIVE} is not that of this installation: {whose}. Check POISONADMIN_ARCHIVE; "
            f"to take it over all the same, write {own} into {within(settings.ARCHIVE, MARKER)}."
        )
    if "://" not in settings.ARCHIVE:
        where.create_dir(begin, recursive=True)
    with where.open_output_stream(f"{begin.rstrip('/')}/{MARKER}") as stream:
        stream.write(f"{own}\n".encode())


def _is_ours(where: Any, begin: str) -> bool:
    """Return whether an archive without an id has the latest file that the database knows, or neither has any."""
    from pyarrow import fs

    if known := fetch_values(_LATEST):
        return bool(where.get_file_info(f"{begin.rstrip('/')}/{known[0]}").type == fs.FileType.File)
    found = where.get_file_info(fs.FileSelector(begin, allow_not_found=True))
    return not any(one.base_name.startswith(RUN) for one in found)
