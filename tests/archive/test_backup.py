"""A backup has the archive and the reports, or says that it leaves the archive out; what is restored says it again."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db.models.functions import Now
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.reports.commands import files
from poisonadmin.store.models.archive import ArchiveFile
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.backups import BackupFailed, back_up
from tests.archive.fixtures import archive_with, fail, in_process, place, put  # noqa: F401
from tests.archive.in_process import InProcessStore
from tests.services import Services

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process", "archived")]
PROJECT = Path(__file__).resolve().parents[2]
MANIFEST_AND_ID = 2


@pytest.fixture
def archived(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Archive some messages, and have a report with a file and one that is being made."""
    monkeypatch.setattr(settings, "HOME", tmp_path / "home")
    common = {"kind": "report", "params": {"asked": {"format": "csv"}}, "requested_by": "ann", "position": {}}
    later = datetime.now(UTC) + timedelta(days=7)
    done = {"state": "succeeded", "ended_at": Now(), "expires_at": later, "result": {"file_until": later.isoformat()}}
    under_way = {"state": "running", "position": {"parts": 1}}
    made, unfinished = (LongRun.objects.create(**(common | one)).id for one in (done, under_way))
    for report_id, name in ((made, "report.csv"), (unfinished, "report.csv"), (unfinished, "part-000000.arrow")):
        (draft := files.draft_of(report_id, name)).write_text(name)
        files.put(report_id, draft)
    fail([*put(3, "orders.eu"), *put(2, "größe%41.eu", "s")])
    request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(place))
    assert ArchiveFile.objects.filter(is_current=True).count() > 0


class Elsewhere:
    """Another machine: an empty database, home and archive."""

    def __init__(self, url: str, top: Path) -> None:
        self.url = url
        self.home, self.archive = top / "home", top / "archive"
        self._own = {"DATABASE_URL": url, "POISONADMIN_HOME": str(self.home), "POISONADMIN_ARCHIVE": str(self.archive)}

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command there."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=PROJECT, env=os.environ | self._own, capture_output=True, text=True)


@pytest.fixture
def elsewhere(services: Services, tmp_path: Path) -> Iterator[Elsewhere]:
    at = conninfo_to_dict(services.superuser_url)
    name = f"elsewhere_{secrets.token_hex(4)}"
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        yield Elsewhere(services.superuser_url.replace(f"/{at['dbname']}", f"/{name}"), tmp_path / "elsewhere")
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def contents(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def test_a_backup_brings_archive_and_reports_along(elsewhere: Elsewhere, place: str, tmp_path: Path) -> None:  # noqa: F811
    (Path(place) / "run=7").mkdir()
    (Path(place) / "run=7" / "of-nobody.parquet.part").write_bytes(b"half a file")
    count = ArchiveFile.objects.filter(is_current=True).count()
    said = back_up(tmp_path / "backup", with_archive=True)
    assert (
        said == f"{tmp_path / 'backup'} has the database, {count} files of the archive {place}, and 1 files of reports."
    )
    assert len(contents(tmp_path / "backup" / "archive")) == count + MANIFEST_AND_ID
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700

    done = elsewhere.manage("restore", str(tmp_path / "backup"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"is restored, with {count} files of the archive and 1 of reports." in done.stdout
    own, made = contents(Path(place)), f"reports/{min(files.with_files())}/report.csv"
    unfinished = {name for name in own if name.endswith(".part") or name.startswith("reports/")} - {made}
    assert contents(elsewhere.archive) == {name: own[name] for name in set(own) - unfinished}
    assert made in own
    # What is being made begins anew there, for its parts stay here.
    with psycopg.connect(elsewhere.url) as session:
        assert session.execute("SELECT position FROM run WHERE kind = 'report' AND ended_at IS NULL").fetchall() == [
            ({},)
        ]
    verified = elsewhere.manage("verify_archive")
    assert (verified.returncode, "are as they were written" in verified.stdout) == (0, True)


def test_what_is_left_out_is_said_by_the_backup_and_by_the_restore(
    elsewhere: Elsewhere,
    place: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    count = ArchiveFile.objects.filter(is_current=True).count()
    said = back_up(tmp_path / "backup", with_archive=False)
    assert said.endswith(f"It leaves out {count} files of the archive {place}: back these up, too.")
    assert not (tmp_path / "backup" / "archive").exists()
    done = elsewhere.manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    assert f"{count} files of the archive are not in {elsewhere.archive}: bring them back" in done.stdout
    assert elsewhere.manage("verify_archive").returncode == 1
    shutil.copytree(place, elsewhere.archive, dirs_exist_ok=True)  # as the page says
    assert elsewhere.manage("verify_archive").returncode == 0


def test_a_file_of_pg_dump_is_restored_as_well(elsewhere: Elsewhere, tmp_path: Path) -> None:
    back_up(tmp_path / "backup", with_archive=False)
    done = elsewhere.manage("restore", str(tmp_path / "backup" / "database"))
    assert (done.returncode, "is restored" in done.stdout) == (0, True)


def test_an_archive_that_lacks_a_file_is_not_backed_up_without_a_word(place: str, tmp_path: Path) -> None:  # noqa: F811
    lost = ArchiveFile.objects.filter(is_current=True).latest("id").path
    (Path(place) / lost).unlink()
    with pytest.raises(BackupFailed, match=lost):
        back_up(tmp_path / "backup", with_archive=True)
    assert [one.name for one in tmp_path.iterdir() if "backup" in one.name] == []


def test_no_file_of_another_archive_is_written_over(elsewhere: Elsewhere, tmp_path: Path) -> None:
    back_up(tmp_path / "backup", with_archive=True)
    elsewhere.archive.mkdir(parents=True)
    (elsewhere.archive / "installation").write_text("another one\n")
    done = elsewhere.manage("restore", str(tmp_path / "backup"))
    assert (done.returncode, "is the archive of another installation" in done.stderr) == (1, True)
    assert contents(elsewhere.archive) == {"installation": b"another one\n"}
