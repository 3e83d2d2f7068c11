"""Stores the result of one read in one transaction: bodies, staged rows, what is no message, receipts."""

import dataclasses
import itertools
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import orjson
import psycopg
from psycopg import sql

from poisonadmin.brokers.domain.broker_names import address_for, content_digest, made_id, message_id_for
from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.domain.draining import batch_prefix
from poisonadmin.intake.domain.staged_rows import TAKE_IDS, IntakeRow, dead_letter_json, headers_json
from poisonadmin.messages.domain.dead_letter import DeadLetter, as_far_as_stored
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope, storable
from workers.brokers.contract import Incoming
from workers.brokers.headers import DELIVERY_COUNTS
from workers.staging import policies_with_keys, write_set_aside, write_staged

# So long a reader may take to acknowledge what it has stored, or to end, before its copies are no longer waited for.
HOLDER_SECONDS = 5.0
_POLL_SECONDS = 0.1

_OWNERS = sql.SQL("""
SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = {reader} AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""").format(reader=Lock.READER.value)
_HELD_BY_OTHERS = sql.SQL("""
SELECT EXISTS (SELECT FROM broker_receipt WHERE source_id = %s AND digest = ANY(%s) AND owner <> %s
               AND owner IN ({owners}))
""").format(owners=_OWNERS)
_UNHELD = sql.SQL("""
SELECT id, digest FROM broker_receipt WHERE source_id = %s AND digest = ANY(%s) AND owner <> %s
    AND owner NOT IN ({owners}) ORDER BY id FOR UPDATE
""").format(owners=_OWNERS)
_WRITE = """
INSERT INTO broker_receipt (source_id, digest, owner) SELECT %s, digest, %s FROM unnest(%s::bytea[]) AS digest
RETURNING id
"""


Connection = psycopg.Connection[tuple[object, ...]]


class Receipts:
    """One reader's receipts for messages without an id that are stored and may not be acknowledged yet.

    A message that is given out again is recognised by its digest. Two equal messages have equal digests, so a receipt
    stands for a copy only when nobody holds the one it was written for: each reader holds an advisory lock as long as
    it lives. A copy is stored twice rather than lost. The connection is the reader's own, as long as it reads.
    """

    def __init__(self, connection: Connection, source_id: int) -> None:
        self._source_id = source_id
        self._owner = 0
        while not self._owner:
            wanted = 1 + secrets.randbelow(2**31 - 1)
            row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.READER, wanted]).fetchone()
            self._owner = wanted if row is not None and row[0] else 0
        connection.commit()

    def wait_for_holders(self, connection: Connection, digests: Sequence[bytes]) -> None:
        """Return when no other reader that lives holds a message like these, or has done so for too long."""
        deadline = time.monotonic() + HOLDER_SECONDS
        while digests and time.monotonic() < deadline:
            row = connection.execute(_HELD_BY_OTHERS, [self._source_id, list(digests), self._owner]).fetchone()
            connection.commit()
            if row is None or not row[0]:
                return
            time.sleep(_POLL_SECONDS)

    def recognise(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> list[tuple[bytes, int]]:
        """Take over receipts for copies of these digests; return those, with their ids: they are stored already."""
        if not digests:
            return []
        wanted = Counter(digests)
        found: list[tuple[bytes, int]] = []
        for receipt_id, digest in cursor.execute(_UNHELD, [self._source_id, list(wanted), self._owner]).fetchall():
            if wanted[bytes(digest)] > 0:
                wanted[bytes(digest)] -= 1
                found.append((bytes(digest), int(receipt_id)))
        ids = [receipt_id for _, receipt_id in found]
        cursor.execute("UPDATE broker_receipt SET owner = %s WHERE id = ANY(%s)", [self._owner, ids])
        return found

    def write(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> list[int]:
        """Write a receipt a digest; return their ids."""
        if not digests:
            return []
        return [row[0] for row in cursor.execute(_WRITE, [self._source_id, self._owner, list(digests)]).fetchall()]

    def remove(self, cursor: psycopg.Cursor, ids: Sequence[int]) -> None:
        """Remove the receipts of what is acknowledged."""
        if ids:
            cursor.execute("DELETE FROM broker_receipt WHERE id = ANY(%s)", [list(ids)])

    def leave(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> None:
        """Write receipts that nobody holds: what was acknowledged may be given out again all the same."""
        if digests:
            cursor.execute(_WRITE, [self._source_id, 0, list(digests)])


@dataclass(frozen=True)
class Stored:
    """The result of one read. `receipts`: (id, digest) of those to be removed once it is acknowledged."""

    staged: int
    recognised: int
    rejected: int
    receipts: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class _NewRows:
    rows: list[IntakeRow] = field(default_factory=list)
    made_ids: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    rejected: list[tuple[InvalidEnvelope, bytes]] = field(default_factory=list)


class BrokerStaging:
    """Stores for one reader of one source; the connection is its own."""

    def __init__(self, database_url: str, source_id: int, *, template: str) -> None:
        self._source_id = source_id
        self._template = template
        self._connection = psycopg.connect(database_url, connect_timeout=5, application_name="poisonadmin drain")
        self._receipts = Receipts(self._connection, source_id)

    def store(self, batch: Sequence[Incoming], acknowledged: Sequence[int] = ()) -> Stored:
        """Store and commit; remove the receipts with the ids in `acknowledged`. Errors: `psycopg.Error`."""
        rows = [_row(message, self._template) for message in batch]
        known = [self._digest(message, row) for message, row in zip(batch, rows, strict=True)]
        again = [digest for message, digest in zip(batch, known, strict=True) if digest and message.is_redelivered]
        self._receipts.wait_for_holders(self._connection, again)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            self._receipts.remove(cursor, acknowledged)
            found = self._receipts.recognise(cursor, again)
            stored_before = Counter(digest for digest, _ in found)
            new = _NewRows()
            for message, row, digest in zip(batch, rows, known, strict=True):
                if digest and message.is_redelivered and stored_before[digest] > 0:
                    stored_before[digest] -= 1
                    continue
                if digest:
                    new.digests.append(digest)
                if isinstance(row, InvalidEnvelope):
                    new.rejected.append((row, message.payload))
                else:
                    new.rows.append(row)
                    new.made_ids.append(made_id(digest) if digest else "")
            self._copy(cursor, new)
            receipts = self._receipts.write(cursor, new.digests)
        return Stored(
            staged=len(new.rows),
            recognised=len(found),
            rejected=len(new.rejected),
            receipts=[(receipt, digest) for digest, receipt in found] + list(zip(receipts, new.digests, strict=True)),
        )

    def forget(self, acknowledged: Sequence[int]) -> None:
        """Remove the receipts with these ids."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            self._receipts.remove(cursor, acknowledged)

    def leave_receipts(self, digests: Sequence[bytes]) -> None:
        """Write that messages are stored which the broker may give out again."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            self._receipts.leave(cursor, digests)

    def close(self) -> None:
        """Close the connection, which gives up the lock on the receipts."""
        self._connection.close()

    @staticmethod
    def _digest(message: Incoming, row: IntakeRow | InvalidEnvelope) -> bytes | None:
        """Return by what the message is known; None where its id says who it is."""
        if isinstance(row, InvalidEnvelope):
            return digest_of(message, None)
        return None if row[1] is not None else digest_of(message, row[9])

    def _copy(self, cursor: psycopg.Cursor, new: _NewRows) -> None:
        batch = f"{batch_prefix(self._source_id)}{uuid.uuid4()}"
        if new.rows:
            ids = (row[0] for row in cursor.execute(TAKE_IDS, [len(new.rows)]).fetchall())
            rows = list(zip(ids, itertools.count(1), new.rows, new.made_ids, strict=False))
            write_staged(cursor, batch, rows, policies_with_keys(cursor))
        # Lines of their own: a conflict is set aside under its staged row's.
        lines = enumerate(new.rejected, start=len(new.rows) + 1)
        write_set_aside(cursor, batch, [(line, *one) for line, one in lines], source_id=self._source_id)


def _row(message: Incoming, template: str) -> IntakeRow | InvalidEnvelope:
    try:
        return intake_row(message, template)
    except InvalidEnvelope as error:
        return error
    except (ValueError, TypeError, RecursionError) as error:
        # Set aside with its bytes: it must not keep those behind it from being stored.
        return InvalidEnvelope("unreadable", None, f"{type(error).__name__}: {error}"[:500])


_BYTES = "application/octet-stream"
# Longer ones, and more, are shown cut: `transport` has them whole for the way back.
_VALUE_CHARS = 8192
_ELLIPSIS = "…"


def intake_row(message: Incoming, template: str) -> IntakeRow:
    """Return the message as its rows need it; its id is None where neither producer nor broker gave it one.

    Its address comes from its original queue by `template`.
    Errors: `InvalidEnvelope` when it is too large.
    """
    if len(message.payload) > LIMITS.payload_bytes:
        raise InvalidEnvelope("payload_too_large", "payload", f"A payload has at most {LIMITS.payload_bytes} bytes.")
    content_type = message.content_type
    is_named = 1 <= len(content_type) <= LIMITS.content_type_chars and content_type.isascii()
    headers = message.headers
    return (
        _address(message.queue, message.dead_letter.original_address, template),
        message_id_for(message.message_id, message.broker_id),
        message.payload,
        content_type if is_named and content_type.isprintable() else _BYTES,
        orjson.dumps(headers, option=orjson.OPT_SORT_KEYS) if _are_small(headers) else headers_json(_cut(headers)),
        _printable(message.conversation_id, LIMITS.conversation_id_chars),
        _printable(message.bookmark, LIMITS.bookmark_chars),
        None,
        _dead_letter_json(message.dead_letter, message.queue),
        orjson.dumps(message.transport),
    )


def digest_of(message: Incoming, transport: bytes | None) -> bytes:
    """Return what a message without an id is recognised by when it is given out again."""
    headers = {name: value for name, value in message.headers.items() if name not in DELIVERY_COUNTS}
    return content_digest(message.queue, message.payload, headers, transport)


@lru_cache(maxsize=4096)
def _dead_letter_json(dead_letter: DeadLetter, queue: str) -> bytes:
    moves = dead_letter.moves
    if moves and moves[-1].to is None:
        moves = (*moves[:-1], dataclasses.replace(moves[-1], to=queue))
    # The message is taken in where it was first: that is its address, and the broker's name for it is in `transport`.
    return dead_letter_json(as_far_as_stored(dataclasses.replace(dead_letter, original_address=None, moves=moves)))


@lru_cache(maxsize=4096)
def _address(queue: str, original: str | None, template: str) -> str:
    return address_for(queue, original, template=template)


def _are_small(headers: Mapping[str, str]) -> bool:
    """Return whether the headers can be stored as they are."""
    if len(headers) > LIMITS.headers_count or "" in headers:
        return False
    texts = "".join([*headers, *headers.values()])
    return (
        len(texts) <= LIMITS.headers_bytes // 4
        and texts.isprintable()
        and (len(texts) <= _VALUE_CHARS or max(map(len, headers.values())) <= _VALUE_CHARS)
    )


def _cut(headers: Mapping[str, str]) -> dict[str, str]:
    """Return as many of the headers as may be stored, cut and without what PostgreSQL cannot hold."""
    found: dict[str, str] = {}
    room = LIMITS.headers_bytes
    for name, value in list(headers.items())[: LIMITS.headers_count]:
        key = "".join(one if one.isprintable() else "_" for one in name[: LIMITS.header_name_chars]) or "_"
        text = storable(value if len(value) <= _VALUE_CHARS else value[:_VALUE_CHARS] + _ELLIPSIS)
        room -= len(key.encode()) + len(text.encode())
        if room < 0:
            break
        found[key] = text
    return found


def _printable(text: str | None, max_chars: int) -> str | None:
    return text if text and len(text) <= max_chars and text.isprintable() else None
