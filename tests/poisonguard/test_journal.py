"""The crash journal: what it says of a process that is gone."""

import os
from pathlib import Path

import pytest

from poisonguard.place import CrashJournal, Record, unfinished


def test_a_journal_says_what_was_being_handled(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("orders-13", b"body")
    assert unfinished(tmp_path / "journal") == Record(1, "orders-13", b"body")


def test_a_cleared_journal_says_nothing(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("orders-13")
    journal.clear()
    assert unfinished(tmp_path / "journal") is None


def test_a_journal_that_was_never_written_says_nothing(tmp_path: Path) -> None:
    CrashJournal(tmp_path / "journal", 0)
    (tmp_path / "empty").touch()
    assert unfinished(tmp_path / "journal") is None
    assert unfinished(tmp_path / "empty") is None


def test_a_shorter_record_hides_the_longer_one_before_it(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("a" * 200, b"x" * 100_000)
    journal.clear()
    journal.begin("b")
    assert unfinished(tmp_path / "journal") == Record(2, "b", None)


def test_an_empty_payload_is_not_the_same_as_none(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("1", b"")
    assert unfinished(tmp_path / "journal") == Record(1, "1", b"")


def test_bookmarks_in_any_script_come_back_as_they_were(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("Bestellung-№13-注文")
    found = unfinished(tmp_path / "journal")
    assert found is not None
    assert found.bookmark == "Bestellung-№13-注文"


def begin_and_die(path: Path, size: int, after_bytes: int) -> None:
    """Begin a record with a payload of `size`, and die when so many bytes of it are written."""
    journal = CrashJournal(path, 0)
    write, left = os.pwrite, after_bytes

    def dying(fd: int, content: bytes, at: int) -> int:
        nonlocal left
        if len(content) > left:
            write(fd, content[:left], at)
            os._exit(0)
        left -= len(content)
        return write(fd, content, at)

    os.pwrite = dying
    journal.begin("1", b"x" * size)
    os._exit(1)


@pytest.mark.parametrize("after_bytes", [0, 1, 100, 4096, 100_000, 200_017])
def test_a_long_record_counts_only_once_all_of_it_is_there(tmp_path: Path, after_bytes: int) -> None:
    pid = os.fork()
    if not pid:
        begin_and_die(tmp_path / "journal", 200_000, after_bytes)
    assert os.waitpid(pid, 0)[1] == 0
    assert unfinished(tmp_path / "journal") is None


def test_a_forked_child_does_not_clear_its_parent_s_record(tmp_path: Path) -> None:
    journal = CrashJournal(tmp_path / "journal", 0)
    journal.begin("13")
    pid = os.fork()
    if not pid:
        journal.abandon()
        journal.clear()
        os._exit(0)
    os.waitpid(pid, 0)
    assert unfinished(tmp_path / "journal") == Record(1, "13", None)
