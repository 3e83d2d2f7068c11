"""The log of many processes."""

import os
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from poisonadmin.embedded.logs import Log


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as taken, os.fdopen(writer, "wb", buffering=0) as given:
        yield taken, given


Pipe = tuple[BinaryIO, BinaryIO]


def test_lines_stand_under_the_name_of_their_process_however_they_were_cut(pipe: Pipe) -> None:
    sink, log = pipe[0], Log(pipe[1].fileno(), colour=False)
    reader, writer = os.pipe()
    log.follow("web", os.fdopen(reader, "rb", buffering=0), ["harmless"])
    for part in (b"one\ntw", b"o\nharmless warning\nthr", b"ee"):
        os.write(writer, part)
        log.forward(1)
    os.close(writer)
    log.forward(1)
    assert os.read(sink.fileno(), 4096).decode().splitlines() == [
        f"{'web':<16} | {text}" for text in ("one", "two", "three")
    ]


def test_a_reader_that_does_not_read_stops_nobody_and_learns_how_much_it_missed(pipe: Pipe) -> None:
    sink, log = pipe[0], Log(pipe[1].fileno(), colour=False)
    for number in range(40_000):
        log.say("web", f"line {number} {'x' * 60}")
    read = b""
    while b"lines were dropped" not in read:
        read += os.read(sink.fileno(), 1 << 16)
        log.say("web", "more")
    assert read.startswith(b"web              | line 0 x")


def test_a_reader_that_has_gone_stops_nobody(pipe: Pipe) -> None:
    log = Log(os.dup(pipe[1].fileno()), colour=False)
    pipe[0].close()
    log.say("web", "to nobody")
    log.flush(1)


def test_each_name_keeps_a_colour_of_its_own(pipe: Pipe) -> None:
    sink, log = pipe[0], Log(pipe[1].fileno(), colour=True)
    for name in ("web", "io", "web"):
        log.say(name, "text")
    first, second, third = os.read(sink.fileno(), 4096).decode().splitlines()
    assert first == third
    assert first.split("m")[0] != second.split("m")[0]
