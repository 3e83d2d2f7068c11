"""Backup and restore of everything that PoisonAdmin keeps: its database, its archive, and the files of reports."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from poisonadmin.archive.commands.ownership import MARKER, archive_id, is_foreign
from poisonadmin.core.domain.archive_place import manifest_path, within
from poisonadmin.core.domain.errors import first_line
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.embedded.placement import postgres_programs
from poisonadmin.embedded.processes import EmbeddedError
from poisonadmin.messages.queries.archived_index import archive_file_system
from poisonadmin.reports.commands.files import REPORTS, draft_of, name_of, put, remove_drafts, with_files
from poisonadmin.reports.commands.requests import with_valid_files
from poisonadmin.store.roles import as_owner
from poisonadmin.store.schema import check_encoding, check_sessions

DATABASE, ARCHIVE = "database", "archive"
_REPORTS = """
SELECT coalesce(former_id, id), params -> 'asked' ->> 'format' FROM run
WHERE kind = 'report' AND state = 'succeeded' AND coalesce(former_id, id) = ANY(%s)
"""
# The parts of an unfinished one are in no backup.
_BEGIN_REPORTS_ANEW = "UPDATE run SET position = '{}' WHERE kind = 'report' AND ended_at IS NULL"
_FILES = "SELECT path, run_id FROM archive_file WHERE is_current ORDER BY id"


class BackupFailed(CommandError):
    """Raised when nothing was written to the backup, or to the database; the text says why."""


def back_up(place: Path, *, with_archive: bool) -> str:
    """Write a backup of one moment to a new directory, whole or not at all; what runs goes on meanwhile.

    Owners and rights stay out of it: the restored tables belong to whoever restores them. Return what the backup has
    and what it has not. Errors: `BackupFailed`.
    """
    if place.exists():
        raise BackupFailed(f"{place} exists already")
    for found in check_sessions([connection.alias]):
        raise BackupFailed(f"{found.msg} {found.hint}")
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700)
        with _archive_at_rest(), open(draft / DATABASE, "xb", opener=_private) as output:
            _run("pg_dump", ["--format=custom", "--no-owner", "--no-acl"], output)
            os.fsync(output.fileno())
            files = fetch_rows(_FILES)
            if with_archive and files:
                _copy_archive(dict(files), draft / ARCHIVE)
        try:
            reports = f"{_copy_reports(draft):,} files of reports"
        except OSError as error:
            if with_archive:
                raise
            reports = f"no files of reports ({first_line(error)})"
        draft.rename(place)
    except OSError as error:
        raise BackupFailed(str(error)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    archived = f"{len(files):,} files of the archive {settings.ARCHIVE}"
    if with_archive:
        return f"{place} has the database, {archived}, and {reports}."
    return f"{place} has the database and {reports}. It leaves out {archived}: back these up, too."


def bring_back(place: Path) -> str:
    """Bring the tables of a backup into the empty database, in one transaction, and up to this version; and its files.

    `place` may be a file of `pg_dump`, too. Return what is restored, and what the archive lacks. Errors:
    `BackupFailed`; the database is as empty as before, or restored and not yet migrated.
    """
    database = place / DATABASE if place.is_dir() else place
    if not database.is_file():
        raise BackupFailed(f"{database} is no file")
    with as_owner():
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            if cursor.fetchone() != (0,):
                raise BackupFailed("the database has tables; restore into an empty one")
        for found in [*check_encoding([connection.alias]), *check_sessions([connection.alias])]:
            raise BackupFailed(f"{found.msg} {found.hint}")
        _put_archive(place / ARCHIVE)
        options = ["--no-owner", "--no-acl", "--single-transaction", "--exit-on-error"]
        with database.open("rb") as source:
            _run("pg_restore", [*options, f"--dbname={connection.settings_dict['NAME']}"], input_from=source)
        with connection.cursor() as cursor:
            # Statistics are not in the file, and the claims of a large backlog are planned by them.
            cursor.execute("ANALYZE")
    call_command("migrate", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_REPORTS_ANEW)
    reports = _put_reports(place / REPORTS)
    where, begin = archive_file_system(settings.ARCHIVE)
    known = [f"{begin.rstrip('/')}/{path}" for path, _ in fetch_rows(_FILES)]
    missing = sum(one.size is None for one in where.get_file_info(known))
    restored = f"{place} is restored, with {len(known) - missing:,} files of the archive and {reports:,} of reports."
    if missing:
        restored += (
            f" {missing:,} files of the archive are not in {settings.ARCHIVE}: bring them back from their backup."
        )
    return restored


@contextmanager
def _archive_at_rest() -> Iterator[None]:
    """Keep everybody from replacing files of the archive meanwhile, so that those of the database's moment stay."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock_shared(%s, 0)", [Lock.TABLES])
        yield
    finally:
        connection.close()


def _copy_archive(files: dict[str, int], target: Path) -> None:
    for path in [MARKER, *map(manifest_path, sorted(set(files.values()))), *files]:
        try:
            _copy_file(path, target)
        except FileNotFoundError as error:
            if path in files:
                where = within(settings.ARCHIVE, path)
                raise BackupFailed(f"the archive has no file {where}: see `manage.py verify_archive`") from error


def _copy_file(path: str, target: Path) -> None:
    """Copy a file of the archive's place. Errors: `FileNotFoundError`."""
    from pyarrow import fs

    where, begin = archive_file_system(settings.ARCHIVE)
    (target / path).parent.mkdir(parents=True, exist_ok=True)
    full = f"{begin.rstrip('/')}/{path}"
    fs.copy_files(full, str(target / path), source_filesystem=where, destination_filesystem=fs.LocalFileSystem())


def _put_archive(source: Path) -> None:
    """Put the files of a backup where the archive is. Errors: `BackupFailed` where that is another installation's."""
    from pyarrow import fs

    if not source.is_dir():
        return
    if archive_id() not in ("", (source / MARKER).read_text().strip()):
        raise BackupFailed(f"{settings.ARCHIVE} is the archive of another installation: restore into an empty one")
    where, begin = archive_file_system(settings.ARCHIVE)
    fs.copy_files(str(source), begin, source_filesystem=fs.LocalFileSystem(), destination_filesystem=where)


def _copy_reports(target: Path) -> int:
    """Copy the files of reports, and nothing of those that are not finished; return how many."""
    copied = 0
    for report_id, written_as in fetch_rows(_REPORTS, [with_valid_files(with_files())]):
        # One that expires meanwhile is gone.
        with suppress(FileNotFoundError):
            _copy_file(f"{REPORTS}/{report_id}/{name_of(FileFormat(written_as))}", target)
            copied += 1
    return copied


def _put_reports(source: Path) -> int:
    """Put the files of reports where the archive is, if that is not another installation's; return how many."""
    files = [] if is_foreign() else list(source.glob("*/report.*"))
    for file in files:
        report_id = int(file.parent.name)
        put(report_id, Path(shutil.copyfile(file, draft_of(report_id, file.name))))
        remove_drafts(report_id)
    return len(files)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _run(
    program: str, options: Sequence[str], output: IO[bytes] | None = None, input_from: IO[bytes] | None = None
) -> None:
    """Run a program of PostgreSQL on the default connection's database; the password is in no command line."""
    arguments, environment = connection.client.settings_to_cmd_args_env(connection.settings_dict, [])
    done = subprocess.run(
        [_path_of(program), *arguments[1:-1], *options],
        env=os.environ | {"PGDATABASE": arguments[-1]} | (environment or {}),
        stdin=input_from or subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise BackupFailed(f"{program} failed: {done.stderr.decode(errors='replace').strip()[-2000:]}")


def _path_of(program: str) -> str:
    """Return where the program is: that of the embedded PostgreSQL, else the one on the PATH."""
    try:
        return str(postgres_programs(None) / program)
    except EmbeddedError:
        if found := shutil.which(program):
            return found
        raise BackupFailed(f"{program} is not on the PATH: install the client programs of PostgreSQL") from None
