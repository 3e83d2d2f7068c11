"""An archive that is another installation's, or an empty disk, is noticed: nothing goes there, or is removed."""

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command

from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.ownership import MARKER, ForeignArchive
from poisonadmin.archive.commands.requests import cancel_archive_run, request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import archive_with, begun, erase_with, fail, in_process, place, put  # noqa: F401
from tests.archive.in_process import InProcessStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process")]
OTHER = "20200101T000000000000"


def run(place: str) -> LongRun:  # noqa: F811
    """Have the archive run, and return the run as it is then."""
    LongRun.objects.filter(ended_at=None).update(resumes_at=None)
    made = request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(place), seconds=5)
    return LongRun.objects.get(id=made.run_id)


def live() -> list[int]:
    return fetch_values("SELECT id FROM message ORDER BY id")


def test_an_empty_archive_gets_the_id_at_the_first_start_and_every_run_finds_it(place: str, capsys) -> None:  # noqa: F811
    call_command("bootstrap")
    marker = Path(place) / MARKER
    own = marker.read_text()
    assert capsys.readouterr().err == ""
    fail(put(3))
    assert (run(place).state, live(), marker.read_text()) == ("succeeded", [], own)
    marker.write_text(OTHER)
    call_command("bootstrap")
    assert f"it has the id {OTHER}" in capsys.readouterr().err


def test_nothing_is_archived_restored_or_removed_in_the_archive_of_another_installation(place: str) -> None:  # noqa: F811
    old = put(2)
    fail(old)
    run(place)
    ids = put(3, prefix="n")
    fail(ids)
    others = Path(place) / f"run={LongRun.objects.latest('id').id + 1}" / "messages"
    others.mkdir(parents=True)
    (others / "theirs.parquet").write_bytes(b"theirs")
    (Path(place) / MARKER).write_text(OTHER)
    before = sorted(one.name for one in Path(place).rglob("*"))

    waiting = run(place)
    assert (waiting.state, live()) == ("queued", ids)
    assert f"it has the id {OTHER}. Check POISONADMIN_ARCHIVE" in str(waiting.error)
    with pytest.raises(ForeignArchive):
        restore_from_archive(old[0], reason="look again", principal=SYSTEM)
    erasure = request_erasure({"state": "FAIL"}, reason="asked to", principal=SYSTEM)
    erase_with(InProcessStore(place), seconds=5)
    assert ("is not that of this installation" in str(LongRun.objects.get(id=erasure.run_id).error), live()) == (
        True,
        ids,
    )
    # A run that is cancelled tidies up: not here.
    LongRun.objects.filter(id=waiting.id).update(state="running", resumes_at=None)
    cancel_archive_run(waiting.id, principal=SYSTEM)
    archive_with(InProcessStore(place), seconds=5)
    assert LongRun.objects.get(id=waiting.id).state == "cancelled"
    assert sorted(one.name for one in Path(place).rglob("*")) == before


def test_an_archive_of_an_earlier_version_is_taken_over_by_its_files_and_an_empty_disk_is_not(place: str) -> None:  # noqa: F811
    fail(put(2))
    run(place)
    marker = Path(place) / MARKER
    own = marker.read_text()
    marker.unlink()
    fail(put(2, prefix="n"))
    assert (run(place).state, live(), marker.read_text()) == ("succeeded", [], own)

    shutil.rmtree(place)
    Path(place).mkdir()
    ids = put(2, prefix="d")
    fail(ids)
    waiting = run(place)
    assert ("has not what the database knows of it" in str(waiting.error), live()) == (True, ids)
    assert list(Path(place).iterdir()) == []
    # What the error says to do.
    (Path(place) / MARKER).write_text(own)
    assert (run(place).state, live()) == ("succeeded", [])


def test_files_of_whom_nobody_knows_are_not_taken_over(place: str) -> None:  # noqa: F811
    (Path(place) / "run=1").mkdir(parents=True)
    ids = put(1)
    fail(ids)
    assert (run(place).state, live()) == ("queued", ids)
