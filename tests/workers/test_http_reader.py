"""The reader of answers: strict where a head could be read in two ways, the same however its bytes are cut."""

import asyncio
import itertools

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpResponseParser
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.delivery.http.reader import READ_BYTES, Head, IncomingAnswer, NotHttp, parse_head

KEPT_BYTES = 100
NAMES = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30).map(str.strip)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


def answer_of(*pieces: bytes) -> IncomingAnswer:
    """Return an answer that came in these pieces."""
    answer = IncomingAnswer(keep=KEPT_BYTES)
    for piece in pieces:
        if not answer.is_read:
            answer.feed(piece)
    return answer


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@given(FIELDS, st.integers(200, 999), VALUES)
def test_a_head_is_read_as_it_was_written(end: str, fields: list[tuple[str, str]], status: int, reason: str) -> None:
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields), "", ""]
    head = parse_head(end.join(lines).encode())
    first: dict[str, str] = {}
    for name, value in fields:
        first.setdefault(name.lower(), value)
    assert head == Head(1, status, reason, first)


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_is_read_or_refused(data: bytes, has_beginning: bool) -> None:
    answer = IncomingAnswer(keep=KEPT_BYTES)
    try:
        answer.feed((b"HTTP/1.1 200 OK\r\n" if has_beginning else b"") + data)
    except NotHttp:
        return
    assert len(answer.kept) <= len(data)


def chunked(chunks: list[bytes], trailer: bytes) -> bytes:
    """Return a body in these chunks."""
    coded = b"".join(b"%x;n=v\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n" + trailer + b"\r\n"


@given(
    st.lists(st.binary(max_size=60), max_size=5),
    st.sampled_from(["length", "chunked", "trailer"]),
    st.lists(st.integers(0, 600), max_size=6),
)
def test_an_answer_is_the_same_however_its_bytes_are_cut(chunks: list[bytes], form: str, cuts: list[int]) -> None:
    body = b"".join(chunks)
    coded = {
        "length": b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        "chunked": chunked(chunks, b""),
        "trailer": chunked(chunks, b"X: y\r\n"),
    }[form]
    whole = b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n" + coded
    ends = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    answer = answer_of(*(whole[start:end] for start, end in itertools.pairwise(ends)))
    assert answer.is_read
    assert answer.is_clean
    assert answer.kept == body[:KEPT_BYTES]


def test_no_more_is_kept_or_read_than_is_wanted() -> None:
    answer = answer_of(b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 1000] * 1000)
    assert answer.kept == b"x" * KEPT_BYTES
    assert answer.is_read
    assert not answer.is_clean
    short = answer_of(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * (READ_BYTES - 1))
    assert not short.is_read


def test_chunks_of_one_byte_cost_no_more_than_their_length() -> None:
    coded = chunked([b"x"] * 9000, b"")
    answer = answer_of(b"HTTP/1.1 200 OK\r\n" + coded)
    assert answer.kept == b"x" * KEPT_BYTES


@given(FIELDS, st.sampled_from(["OK", "", "Not Found"]), st.integers(200, 599))
def test_what_is_taken_is_taken_by_another_parser_too(fields: list[tuple[str, str]], reason: str, status: int) -> None:
    """llhttp, by way of aiohttp, reads the same status and fields: neither sees a line where the other sees none."""
    known = {"content-length", "transfer-encoding", "connection", "upgrade"}
    assume(not any(name.lower() in known for name, _ in fields))
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields)]
    data = ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def theirs() -> tuple[int, dict[str, str]] | None:
        loop = asyncio.get_running_loop()
        parser = HttpResponseParser(BaseProtocol(loop), loop, 2**16, read_until_eof=True)
        try:
            [(message, _)], *_ = parser.feed_data(data)
        except HttpProcessingError:
            return None
        return message.code, {name.lower(): message.headers[name] for name in message.headers}

    ours = parse_head(data)
    assert asyncio.run(theirs()) == (ours.status, ours.fields)
