"""Files cut at any byte: every line is read once, whole, with its number in the file."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poisonadmin.sources.domain.files import FileKind, FileToTake
from workers.spark import sources
from workers.spark.sources import FileGone, FilePart, InvalidFile, lines_of, newlines_of, numbered, opened, parts_of


def file_at(path: Path, kind: FileKind = FileKind.NDJSON, file_id: int = 1) -> FileToTake:
    facts = path.stat()
    return FileToTake(file_id, 1, os.fsencode(path), kind, facts.st_size, facts.st_mtime_ns)


def read(parts: list[FilePart]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for part in parts:
        with opened(part.file) as handle:
            found += lines_of(part, handle)
    return found


def counted_and_read(parts: list[FilePart]) -> list[tuple[int, bytes]]:
    newlines = []
    for part in parts:
        with opened(part.file) as handle:
            newlines.append(newlines_of(part, handle)[0])
    return read(numbered(parts, newlines, [()] * len(parts)))


def lines_in(text: bytes) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(text.split(b"\n"), start=1) if line.strip()]


def test_a_small_file_cut_at_every_offset_gives_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    text = b'{"a":1}\n\n\nx\r\n' + "Zoë\n".encode() + b" \n0123456789\nlast"
    path.write_bytes(text)
    file = file_at(path)
    for offset in range(1, len(text)):
        parts = [FilePart(file, 0, offset), FilePart(file, offset, len(text))]
        assert counted_and_read(parts) == lines_in(text), f"cut at {offset}"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from([b"", b" ", b"a", b"bcd", b"e" * 9])).map(b"\n".join), part_bytes=st.integers(1, 40)
)
def test_parts_of_any_size_give_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, part_bytes: int
) -> None:
    monkeypatch.setattr(sources, "_CHUNK_BYTES", 3)
    path = tmp_path / "a.ndjson"
    path.write_bytes(text)
    assert counted_and_read(parts_of([file_at(path)], part_bytes=part_bytes)) == lines_in(text)


def test_parts_of_several_files_are_numbered_each_from_its_first_line(tmp_path: Path) -> None:
    files = []
    for file_id in (1, 2):
        path = tmp_path / f"{file_id}.ndjson"
        path.write_bytes(b"aaaa\nbbbb\ncccc\n")
        files.append(file_at(path, file_id=file_id))
    parts = parts_of(files, part_bytes=5)
    found = numbered(parts, [1] * 6, [[(n, n), (n + 10, n + 11)] for n in range(6)])
    assert [part.first_line for part in found] == [1, 2, 3] * 2
    assert list(found[3].ids) == [3, 13, 14]


def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert read(parts_of([file_at(path)])) == [(1, b"a"), (2, b"\xef\xbb\xbfb")]


def test_a_gzip_file_of_several_members_is_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert read(parts_of([file_at(path, FileKind.GZIP)], part_bytes=1)) == [(1, b"a"), (2, b"bc")]


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b"{" + raw]
)
def test_a_damaged_gzip_file_is_broken(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(damage(gzip.compress(os.urandom(9000))))  # type: ignore[operator]
    with pytest.raises(InvalidFile):
        read(parts_of([file_at(path, FileKind.GZIP)]))


def test_a_gzip_file_that_expands_beyond_measure_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FREE_EXPANSION_BYTES", 1024 * 1024)
    path = tmp_path / "bomb.ndjson.gz"
    path.write_bytes(gzip.compress(b"\0" * 64 * 1024 * 1024))
    with pytest.raises(InvalidFile, match="500 times"):
        read(parts_of([file_at(path, FileKind.GZIP)]))


def test_a_file_that_changed_since_it_was_seen_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"a\n")
    file = file_at(path)
    path.write_bytes(b"b\nc\n")
    with pytest.raises(FileGone):
        read(parts_of([file]))


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"a\n")
    with pytest.raises(FileGone), opened(file_at(path)):
        path.write_bytes(b"a\nb\n")


@pytest.mark.parametrize("replace", ["link", "pipe", "directory", "nothing"])
def test_what_took_the_place_of_a_file_is_not_opened(tmp_path: Path, replace: str) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"a\n")
    file = file_at(path)
    path.rename(tmp_path / "moved")
    if replace == "link":
        path.symlink_to(tmp_path / "moved")
    elif replace == "pipe":
        os.mkfifo(path)
    elif replace == "directory":
        path.mkdir()
    with pytest.raises((FileGone, OSError)):
        read(parts_of([file]))


def test_an_archive_within_an_archive_is_not_unpacked(tmp_path: Path) -> None:
    inner = gzip.compress(b"\0" * 1024 * 1024, mtime=0)
    path = tmp_path / "nested.ndjson.gz"
    path.write_bytes(gzip.compress(inner))
    assert read(parts_of([file_at(path, FileKind.GZIP)])) == lines_in(inner)


def test_ids_are_reserved_for_as_many_messages_as_the_bytes_may_hold(tmp_path: Path) -> None:
    path = tmp_path / "blank.ndjson.gz"
    path.write_bytes(gzip.compress(b"\n" * 24_000_000))
    [part] = parts_of([file_at(path, FileKind.GZIP)])
    with opened(part.file) as handle:
        assert newlines_of(part, handle) == (24_000_000, 1_000_001)
    shortest = b'{"address":"a","payload":1}\n'
    path.write_bytes(gzip.compress(shortest * 1000))
    [part] = parts_of([file_at(path, FileKind.GZIP)])
    with opened(part.file) as handle:
        assert newlines_of(part, handle) == (1000, 1001)
