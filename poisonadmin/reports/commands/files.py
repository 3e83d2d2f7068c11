"""The files of reports: a directory a report in the home, for the account that runs PoisonAdmin alone."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.queries.rows import StoredBytes

REPORTS = "reports"
_SLICE = 1024 * 1024


def directory_of(report_id: int) -> Path:
    """Return the directory of a report's file and of the parts that it is made of."""
    return Path(settings.HOME) / REPORTS / str(report_id)


def file_of(report_id: int, written_as: FileFormat) -> Path:
    """Return the path of a report's file."""
    return directory_of(report_id) / f"report.{written_as}"


def part_of(report_id: int, number: int) -> Path:
    """Return the path of a part, which holds the rows of one wave."""
    return directory_of(report_id) / f"part-{number:06}.arrow"


def make_directory(report_id: int) -> Path:
    """Make the directory of a report, where there is none."""
    directory = directory_of(report_id)
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def put_in_place(written: Path, path: Path) -> None:
    """Let a file that is whole have its name: who finds the name finds the whole file, also after a crash."""
    written.chmod(0o600)
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.replace(path)


def remove(report_id: int) -> None:
    """Remove all files of a report."""
    shutil.rmtree(directory_of(report_id), ignore_errors=True)


def remove_parts(report_id: int) -> None:
    """Remove the parts of a report, whose file is whole."""
    for part in directory_of(report_id).glob("part-*.arrow*"):
        part.unlink(missing_ok=True)


def content_of(path: Path) -> StoredBytes:
    """Return a file as a download sends it, slice by slice."""
    return StoredBytes(path.stat().st_size, _slices(path))


def _slices(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_SLICE):
            yield block


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    digest = hashlib.sha256()
    for block in _slices(path):
        digest.update(block)
    return digest.hexdigest()
