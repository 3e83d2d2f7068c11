"""Which files are taken in, and how they are called in the database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.sources.domain.files import MAX_PATH_BYTES, FileKind, is_unfinished, kind_of, stored_path

PATHS = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name).map(lambda name: b"/in/" + name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b"a.ndjson", FileKind.NDJSON),
        (b"a.jsonl", FileKind.NDJSON),
        (b"a.json", FileKind.NDJSON),
        (b"a.b.NDJSON.GZ", FileKind.GZIP),
        (b"a.jsonl.gz", FileKind.GZIP),
        (b"a.json.gz", FileKind.GZIP),
        (b"a.parquet", FileKind.PARQUET),
        (b"\xff.parquet", FileKind.PARQUET),
        (b"a.gz", None),
        (b"a.txt", None),
        (b".json", None),
        (b"json", None),
    ],
)
def test_a_file_is_read_by_the_end_of_its_name(name: bytes, kind: FileKind | None) -> None:
    assert kind_of(name) is kind


@pytest.mark.parametrize("name", [b".a.ndjson", b"a.ndjson.tmp", b"a.ndjson.PART", b"a.ndjson~"])
def test_a_file_that_says_it_is_not_finished_is_left_alone(name: bytes) -> None:
    assert is_unfinished(name)
    assert not is_unfinished(b"a.ndjson")


@given(PATHS, PATHS)
def test_two_paths_never_share_a_name(one: bytes, other: bytes) -> None:
    assert (stored_path(one) == stored_path(other)) == (one == other)


@given(PATHS)
def test_a_stored_path_is_printable_and_short_enough_for_an_index(path: bytes) -> None:
    for stored in (stored_path(path), stored_path(path * 300)):
        assert stored.isprintable()
        assert len(stored.encode()) <= MAX_PATH_BYTES


def test_a_name_that_looks_like_an_encoded_one_is_not_taken_for_it() -> None:
    assert stored_path(b"bytes:/in/%FF") != stored_path(b"/in/\xff")
    assert stored_path(b"/in/%FF") != stored_path(b"/in/\xff")
