"""Where the database's programs and files stand when it runs under an account of its own."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from poisonadmin.embedded.placement import data_parent, others_can_enter, postgres_programs, socket_directory
from poisonadmin.embedded.processes import Account, EmbeddedError

OURSELVES = Account("ourselves", os.geteuid(), os.getegid())


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A directory that nobody else can enter; what was linked from it elsewhere is gone after the test."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    yield private
    for link in private.rglob("postgres"):
        if link.is_symlink():
            shutil.rmtree(link.readlink(), ignore_errors=True)


def test_without_an_account_of_its_own_everything_stands_in_the_data_directory(private: Path) -> None:
    assert data_parent(private, None) == private / "postgres"
    assert "site-packages" in str(postgres_programs(None))


def test_files_leave_a_directory_that_the_account_cannot_enter_and_are_found_again(private: Path) -> None:
    first = data_parent(private, OURSELVES)
    assert others_can_enter(first)
    assert not others_can_enter(private)
    assert (private / "postgres").readlink() == first == data_parent(private, OURSELVES)


def test_a_copied_data_directory_does_not_share_the_database_of_its_original(private: Path) -> None:
    original, copy = private / "original", private / "copy"
    original.mkdir()
    data_parent(original, OURSELVES)
    shutil.copytree(original, copy, symlinks=True)
    with pytest.raises(EmbeddedError, match=f"database of {original}"):
        data_parent(copy, OURSELVES)


def test_a_moved_data_directory_keeps_its_database(private: Path) -> None:
    before, after = private / "before", private / "after"
    before.mkdir()
    database = data_parent(before, OURSELVES)
    before.rename(after)
    assert data_parent(after, OURSELVES) == database


def test_the_socket_leaves_a_directory_with_a_long_name(private: Path) -> None:
    near = private / "near"
    far = private / ("long" * 30)
    near.mkdir()
    far.mkdir()
    assert len(bytes(socket_directory(far, None))) < 86
    elsewhere = socket_directory(far, None)
    assert elsewhere == socket_directory(far, None) != socket_directory(near, None)
    elsewhere.rmdir()
