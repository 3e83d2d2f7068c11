"""The files of reports: a directory a report where the archive is, which all machines share.

Each is written as a draft first, in a directory of the process in the home of its machine, and then put there whole.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from poisonadmin.core.domain.archive_place import unfinished
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.queries.rows import StoredBytes
from poisonadmin.messages.queries.archived_index import archive_file_system

REPORTS = "reports"
DRAFTS = "drafts"
_SLICE = 1024 * 1024
# Two workers of one home may have turns with one report.
_PROCESS = secrets.token_hex(8)


def name_of(written_as: FileFormat) -> str:
    """Return the name of a report's file."""
    return f"report.{written_as}"


def part_name(number: int) -> str:
    """Return the name of a part, which holds the rows of one wave."""
    return f"part-{number:06}.arrow"


def draft_of(report_id: int, name: str) -> Path:
    """Return where this process writes a file of a report, in a directory that is made."""
    drafts = Path(settings.HOME) / DRAFTS
    own = drafts / str(report_id) / _PROCESS
    for directory in (drafts, own.parent, own):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own / name


def put(report_id: int, draft: Path) -> None:
    """Put a draft in its place: who finds its name there finds the whole file, also after a crash."""
    from pyarrow import fs

    where, full = _located(report_id, draft.name)
    if not isinstance(where, fs.LocalFileSystem):
        fs.copy_files(str(draft), full, source_filesystem=fs.LocalFileSystem(), destination_filesystem=where)
        draft.unlink()
        return
    directory, part = Path(full).parent, Path(unfinished(f"{full}.{_PROCESS}"))
    for one in (directory.parent, directory):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft.chmod(0o600)
    shutil.move(draft, part)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(full)


def open_part(report_id: int, number: int) -> Any:
    """Return a part, as Arrow reads it."""
    where, full = _located(report_id, part_name(number))
    return where.open_input_file(full)


def content_of(report_id: int, written_as: FileFormat) -> StoredBytes:
    """Return a report's file as a download sends it, slice by slice. Errors: `FileNotFoundError`, `OSError`."""
    where, full = _located(report_id, name_of(written_as))
    size: int | None = where.get_file_info(full).size
    if size is None:
        raise FileNotFoundError(full)
    return StoredBytes(size, _slices(where, full))


def _slices(where: Any, full: str) -> Iterator[bytes]:
    with where.open_input_stream(full, compression=None) as stream:
        while block := stream.read(_SLICE):
            yield block


def sha256_of(content: StoredBytes) -> str:
    """Return the checksum of a file, which is read for it."""
    digest = hashlib.sha256()
    for block in content.slices:
        digest.update(block)
    return digest.hexdigest()


def remove(report_id: int) -> None:
    """Remove all files of a report, and its drafts on this machine."""
    where, directory = _located(report_id)
    with suppress(FileNotFoundError):
        where.delete_dir(directory)
    remove_drafts(report_id)


def remove_drafts(report_id: int) -> None:
    """Remove what this machine has begun to write of a report."""
    shutil.rmtree(Path(settings.HOME) / DRAFTS / str(report_id), ignore_errors=True)


def remove_parts(report_id: int) -> None:
    """Remove the parts of a report, whose file is whole."""
    where, directory = _located(report_id)
    for part in _listed(where, directory):
        if part.base_name.startswith("part-"):
            where.delete_file(part.path)
    remove_drafts(report_id)


def with_files() -> list[int]:
    """Return the reports of which there are files."""
    where, begin = archive_file_system(settings.ARCHIVE)
    found = _listed(where, f"{begin.rstrip('/')}/{REPORTS}")
    return [int(one.base_name) for one in found if one.base_name.isdecimal()]


def with_drafts() -> list[int]:
    """Return the reports of which this machine has drafts."""
    return [int(one.name) for one in (Path(settings.HOME) / DRAFTS).glob("*") if one.name.isdecimal()]


def _listed(where: Any, directory: str) -> list[Any]:
    from pyarrow import fs

    found: list[Any] = where.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return found


def _located(report_id: int, name: str = "") -> tuple[Any, str]:
    """Return the file system of the archive, and the path there of a report's directory, or of a file in it."""
    where, begin = archive_file_system(settings.ARCHIVE)
    return where, "/".join(filter(None, (begin.rstrip("/"), REPORTS, str(report_id), name)))
