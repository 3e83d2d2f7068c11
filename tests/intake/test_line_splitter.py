"""Lines come out numbered and whole, however the bytes were cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.intake.domain.quick_lines import split_lines

TEXT = st.lists(st.sampled_from([b"", b" ", b"a", b"bb", b"ccc\r", b"\t\r", b"d" * 9])).map(b"\n".join)


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@given(TEXT, st.lists(st.integers(0, 1000)))
def test_lines_do_not_depend_on_how_the_stream_was_cut(text: bytes, places: list[int]) -> None:
    expected = [(n, line) for n, line in enumerate(text.split(b"\n"), start=1) if line.strip()]
    assert list(split_lines(cut(text, places), max_bytes=100)) == expected


@given(TEXT, st.lists(st.integers(0, 1000)), st.integers(1, 5))
def test_a_line_that_is_too_long_is_cut_one_byte_past_the_limit(text: bytes, places: list[int], limit: int) -> None:
    found = list(split_lines(cut(text, places), max_bytes=limit))
    whole = dict(enumerate(text.split(b"\n"), start=1))
    assert all(line == whole[n][: limit + 1] for n, line in found)
    assert {n for n, line in whole.items() if line[: limit + 1].strip()} == {n for n, _ in found}


def test_numbers_go_on_from_the_first() -> None:
    assert list(split_lines([b"a\n\nb"], max_bytes=9, first=7)) == [(7, b"a"), (9, b"b")]


def test_what_is_passed_over_of_a_long_line_is_not_kept() -> None:
    chunks = (b"x" * 1000 for _ in range(1000))
    assert list(split_lines(chunks, max_bytes=10)) == [(1, b"x" * 11)]
