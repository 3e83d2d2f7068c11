"""Files are taken in below the directories of POISONADMIN_SOURCE_ROOTS and nowhere else, whatever links say."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from poisonadmin.brokers.domain.brokers import InvalidSource
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.sources.commands import files
from poisonadmin.sources.commands.directories import ingest_source
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.sources.domain.files import FileToTake, StagedFile
from poisonadmin.sources.domain.roots import UnusableSourceRoots, open_without_links, source_roots
from poisonadmin.store.models.intake import Source, SourceFile
from tests.fixtures.inbox import Inbox
from tests.intake.store import line, messages


@pytest.fixture
def root(tmp_path: Path, settings: LazySettings) -> Path:
    """Return the one directory below which files are taken in."""
    root = tmp_path / "incoming"
    (root / "orders").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    settings.SOURCE_ROOTS = (root,)
    return root


def save(path: Path | str) -> Source:
    return save_source("files", kind="directory", config={"path": str(path)}, principal=SYSTEM)


def test_inbox_in_the_home_is_the_only_root_by_default(tmp_path: Path) -> None:
    assert source_roots({}, tmp_path) == (tmp_path / "inbox",)
    assert source_roots({"POISONADMIN_SOURCE_ROOTS": ""}, tmp_path) == (tmp_path / "inbox",)


def test_roots_are_absolute_and_their_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.setenv("HOME", str(tmp_path))
    text = os.pathsep.join([f" {tmp_path / 'link'} ", "", "~/mounted-later"])
    home = tmp_path / "home"
    assert source_roots({"POISONADMIN_SOURCE_ROOTS": text}, home) == (tmp_path / "a", tmp_path / "mounted-later")


@pytest.mark.parametrize(
    "text", ["inbox", "../x", "/", "/etc", "/etc/poison", "/proc/self", "/sys", "/dev/shm", "~nobody-here/x", "{home}"]
)
def test_a_root_that_cannot_be_is_named(text: str, tmp_path: Path) -> None:
    text = text.replace("{home}", str(tmp_path))
    with pytest.raises(UnusableSourceRoots, match="POISONADMIN_SOURCE_ROOTS: ") as refused:
        source_roots({"POISONADMIN_SOURCE_ROOTS": text}, tmp_path)
    assert text in str(refused.value)


@pytest.mark.parametrize("inside", ["..", "postgres", "../link"])
def test_a_root_holds_nothing_of_the_installation_s(inside: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(UnusableSourceRoots, match="own directory"):
        source_roots({"POISONADMIN_SOURCE_ROOTS": os.path.normpath(home / inside)}, home)


def test_the_inbox_may_be_no_link_to_the_home_itself(tmp_path: Path) -> None:
    (tmp_path / "inbox").symlink_to(tmp_path)
    with pytest.raises(UnusableSourceRoots, match="own directory"):
        source_roots({}, tmp_path)


def test_a_directory_below_a_root_is_a_source_and_so_is_the_root(root: Path, db: None) -> None:
    assert save(root / "orders").config == {"path": str(root / "orders")}
    assert save(root).config == {"path": str(root)}
    (root / "alias").symlink_to(root / "orders")
    assert save(root / "alias").config == {"path": str(root / "alias")}, "a link may stay inside"


def links_out(root: Path) -> dict[str, Path]:
    """Make links that lead out of the root; return paths by what they are."""
    home = Path(os.environ["POISONADMIN_HOME"])
    outside = {"etc": Path("/etc"), "home": home, "elsewhere": root.parent / "elsewhere"}

    for name, target in outside.items():
        (root / name).symlink_to(target)
    (root / "twice").symlink_to(root / "etc")
    named = {name: root / name for name in (*outside, "twice")}
    return named | {
        "inside a link": root / "etc" / "ssl",
        "beside": root.parent / "elsewhere",
        "a longer name": Path(f"{root}-more"),
        "above": root.parent,
    }


@pytest.mark.parametrize(
    "where", ["etc", "home", "elsewhere", "twice", "inside a link", "beside", "a longer name", "above"]
)
def test_what_is_or_leads_outside_is_refused(where: str, root: Path, db: None) -> None:
    with pytest.raises(InvalidSource, match="POISONADMIN_SOURCE_ROOTS") as refused:
        save(links_out(root)[where])
    assert refused.value.field == "path"
    assert not Source.objects.exists()


def test_a_directory_that_became_a_link_is_not_read(inbox: Inbox, tmp_path: Path) -> None:
    inbox.drop("a.ndjson", line())
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    inbox.directory.rename(elsewhere)
    inbox.directory.symlink_to(elsewhere)
    assert ingest_source(inbox.source.id, stage=nothing, worker="tests") is None
    inbox.source.refresh_from_db()
    assert "POISONADMIN_SOURCE_ROOTS" in str(inbox.source.last_error)
    assert not SourceFile.objects.exists()


def nothing(_files: Sequence[FileToTake]) -> Sequence[StagedFile]:
    raise AssertionError("nothing is to be staged")


def test_a_source_that_was_allowed_before_says_why_it_is_read_no_more(inbox: Inbox, settings: LazySettings) -> None:
    inbox.drop("a.ndjson", line())
    settings.SOURCE_ROOTS = (Path("/srv"),)
    assert ingest_source(inbox.source.id, stage=nothing, worker="tests") is None
    inbox.source.refresh_from_db()
    assert inbox.source.last_error == f"{inbox.directory} is not below POISONADMIN_SOURCE_ROOTS (/srv)."


def test_a_directory_that_becomes_a_link_while_it_is_read_gives_nothing(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is swapped after the check, and before it is opened."""
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.ndjson").write_bytes(line())
    os.utime(elsewhere / "secret.ndjson", ns=(1, 1))
    is_below = files.directory_below

    def swap(*arguments: Any) -> Path:
        found = is_below(*arguments)
        inbox.directory.rmdir()
        inbox.directory.symlink_to(elsewhere)
        return found

    monkeypatch.setattr(files, "directory_below", swap)
    assert ingest_source(inbox.source.id, stage=nothing, worker="tests") is None
    assert not SourceFile.objects.exists()


def test_a_directory_that_becomes_a_link_before_its_files_are_opened_gives_nothing(
    inbox: Inbox, stage: Callable[[Sequence[FileToTake]], Sequence[StagedFile]], tmp_path: Path
) -> None:
    """The file behind the link has the size and the time of the one that was seen."""
    path = Path(os.fsdecode(inbox.drop("a.ndjson", line(message_id="mine"))))
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"

    def swap(waiting: Sequence[FileToTake]) -> Sequence[StagedFile]:
        times = path.stat().st_mtime_ns
        inbox.directory.rename(elsewhere)
        (elsewhere / "a.ndjson").write_bytes(line(message_id="them"))
        os.utime(elsewhere / "a.ndjson", ns=(times, times))
        inbox.directory.symlink_to(elsewhere)
        return stage(waiting)

    ingest_source(inbox.source.id, stage=swap, worker="tests")
    assert messages() == {}
    assert SourceFile.objects.get().state == "seen"


def test_a_source_behind_a_link_inside_is_read_once(
    inbox: Inbox, stage: Callable[[Sequence[FileToTake]], Sequence[StagedFile]], tmp_path: Path
) -> None:
    inbox.drop("a.ndjson", line(message_id="1"))
    assert ingest_source(inbox.source.id, stage=stage, worker="tests") is not None
    moved = tmp_path / "moved"
    inbox.directory.rename(moved)
    inbox.directory.symlink_to(moved)
    assert ingest_source(inbox.source.id, stage=stage, worker="tests") is None, "its files are those it had"
    assert SourceFile.objects.get().path == f"{inbox.directory}/a.ndjson"
    (moved / "b.ndjson").write_bytes(line(message_id="2"))
    os.utime(moved / "b.ndjson", ns=(1, 1))
    assert ingest_source(inbox.source.id, stage=stage, worker="tests") is not None
    assert len(messages()) == 2


def test_no_part_of_a_path_may_be_a_link_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.close(open_without_links(os.fsencode(tmp_path / "a" / "b" / "file"), os.O_RDONLY))
    os.close(open_without_links(os.fsencode(tmp_path / "a"), os.O_RDONLY | os.O_DIRECTORY))
    for path in ("link/b/file", "link", "link/b"):
        with pytest.raises(OSError, match=r"directory|symbolic"):
            open_without_links(os.fsencode(tmp_path / path), os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        open_without_links(os.fsencode(tmp_path / "none" / "file"), os.O_RDONLY)
