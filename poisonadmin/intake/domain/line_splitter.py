"""Lines out of chunks of bytes, counted, in bounded memory."""

from collections.abc import Iterable, Iterator

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def split_lines(chunks: Iterable[bytes], *, max_bytes: int, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank with its number, without its newline.

    Shape: numbers grow from `first`; blank lines count too. A line of more than `max_bytes` comes out cut to
    `max_bytes` + 1, so that its reader can see that it is too long while the rest of it is passed over.

    >>> list(split_lines([b'{"a"', b':1}\\n\\n', b'x'], max_bytes=100))
    [(1, b'{"a":1}'), (3, b'x')]
    """
    number = first
    held: list[bytes] = []
    room = max_bytes + 1
    for chunk in chunks:
        start = 0
        if held:
            end = chunk.find(b"\n")
            room = _hold(held, chunk if end < 0 else chunk[:end], room)
            if end < 0:
                continue
            line = b"".join(held)
            held.clear()
            room = max_bytes + 1
            if not line.isspace():
                yield number, line
            number += 1
            start = end + 1
        *lines, rest = (chunk[start:] if start else chunk).split(b"\n")
        for line in lines:
            if line and not line.isspace():
                yield number, line[: max_bytes + 1]
            number += 1
        if rest:
            room = _hold(held, rest, room)
    if held and not (line := b"".join(held)).isspace():
        yield number, line


def _hold(held: list[bytes], piece: bytes, room: int) -> int:
    """Keep as much of `piece` as there is room for; return the room that is left."""
    if room and piece:
        held.append(piece[:room])
    return max(0, room - len(piece))
