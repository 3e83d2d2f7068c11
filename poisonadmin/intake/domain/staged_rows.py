"""An envelope as the two rows that wait for the merge: its bytes in `body`, the rest in `staged_message`.

The web process and the Spark tasks write the same rows, so they are made here. Each is a tuple for a binary COPY.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from poisonadmin.groups.domain import failures
from poisonadmin.intake.domain.envelope import MessageEnvelope
from poisonadmin.messages.domain.business_keys import KeyDefinition, Loads, extract, parsed_keys
from poisonadmin.messages.domain.dead_letter import FIELDS, DeadLetter, as_far_as_stored
from poisonadmin.policies.domain.resolution import PolicyIndex

# address, message_id, payload, content_type, headers as JSON, conversation_id, bookmark, expires_at, dead letter as
# JSON, transport as JSON.
# A tuple: a million of these are made where an object each would cost more than reading its line.
IntakeRow = tuple[
    str, str | None, bytes, str, bytes, str | None, str | None, datetime | None, bytes | None, bytes | None
]
BodyRow = tuple[int, bytes, bytes, bytes | None]
StagedRow = tuple[
    int, str, int, str, str, str | None, str | None, str, int, datetime | None, bytes | None
]  # fmt: skip

BODY_COPY = "COPY body (id, headers, payload, transport) FROM STDIN (FORMAT binary)"
BODY_TYPES = ("int8", "bytea", "bytea", "bytea")
STAGED_COPY = (
    "COPY staged_message (id, batch, line, address, message_id, conversation_id, bookmark, content_type, "
    "payload_bytes, expires_at, dead_letter) FROM STDIN (FORMAT binary)"
)
STAGED_TYPES = (
    "int8", "varchar", "int8", "varchar", "varchar", "varchar", "varchar", "varchar", "int4", "timestamptz", "bytea"
)  # fmt: skip
REJECTED_COPY = (
    "COPY rejected_line (source_id, source_file_id, batch, line, code, detail, raw) FROM STDIN (FORMAT binary)"
)
REJECTED_TYPES = ("int8", "int8", "varchar", "int8", "varchar", "text", "bytea")
# Ids come from the message's own sequence, so that a staged row already has its final one.
TAKE_IDS = "SELECT nextval((SELECT pg_get_serial_sequence('message', 'id')::regclass)) FROM generate_series(1, %s)"
# message id, name, value
KeyRow = tuple[int, str, str]
KEY_COPY = "COPY business_key (message_id, name, value) FROM STDIN (FORMAT binary)"
KEY_TYPES = ("int8", "varchar", "varchar")


def headers_json(headers: Mapping[str, str]) -> bytes:
    """Return the bytes that `body.headers` holds for these headers; equal headers give equal bytes.

    >>> headers_json({"b": "ü", "a": "1"}).decode()
    '{"a":"1","b":"ü"}'
    """
    if not headers:
        return b"{}"
    return json.dumps(dict(sorted(headers.items())), ensure_ascii=False, separators=(",", ":")).encode()


def intake_row(envelope: MessageEnvelope, transport: bytes | None = None) -> IntakeRow:
    """Return the envelope as its rows need it.

    `transport`: what a broker said of the message beyond headers, as JSON, for the way back (workers/brokers/contract).
    """
    letter = envelope.dead_letter
    if letter is not None and transport is not None:
        letter = as_far_as_stored(letter)
    return (
        envelope.address,
        envelope.message_id,
        envelope.payload,
        envelope.content_type,
        headers_json(envelope.headers),
        envelope.conversation_id,
        envelope.bookmark,
        envelope.expires_at,
        None if letter is None else dead_letter_json(letter),
        transport,
    )


def body_row(row_id: int, row: IntakeRow) -> BodyRow:
    """Return the row of `body` for the message with this id."""
    return row_id, row[4], row[2], row[9]


def staged_row(row_id: int, row: IntakeRow, made_id: str, *, batch: str, line: int) -> StagedRow:
    """Return the row of `staged_message`; `made_id` is the message's id where its producer gave it none."""
    address, message_id, payload, content_type, _, conversation_id, bookmark, expires_at, dead_letter, _ = row
    return (
        row_id,
        batch,
        line,
        address,
        message_id or made_id,
        conversation_id,
        bookmark,
        content_type,
        len(payload),
        expires_at,
        dead_letter,
    )


def dead_letter_json(letter: DeadLetter) -> bytes:
    """Return what the merge needs of a dead letter: what was told, and the failure that it tells of.

    Shape: one JSON object, without NUL in any text: `told` as handed in without its nulls, the columns
    `error_class, cause_class, error_message, stack, fingerprint, title` of attempt 0, and where they are known `moves`
    (a list of `{queue, reason, at, count, to}`, oldest first) and `came_back` (`{message_id, attempt_number}`).
    """
    failure = failures.from_dead_letter(letter)
    kept: dict[str, object] = {
        "told": {name: _plain(value) for name in FIELDS if (value := getattr(letter, name)) is not None},
        "error_class": failure.exception_class[:255],
        "cause_class": failure.cause_class[:255] if failure.cause_class else None,
        "error_message": failure.message,
        "stack": failure.stack or None,
        "fingerprint": failures.fingerprint(failure),
        "title": failures.title(failure)[:300],
    }
    if letter.moves:
        kept["moves"] = [{name: _plain(value) for name, value in asdict(move).items()} for move in letter.moves]
    if letter.came_back is not None:
        kept["came_back"] = asdict(letter.came_back)
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def key_rows(
    rows: Iterable[tuple[int, IntakeRow]], policies: PolicyIndex, *, loads: Loads = json.loads
) -> Iterator[KeyRow]:
    """Yield the rows of `business_key` for the rows with these ids, by the policy of the address each was sent to."""
    keys_of: dict[str, Sequence[KeyDefinition]] = {}
    for row_id, row in rows:
        address, payload, headers = row[0], row[2], row[4]
        keys = keys_of.get(address)
        if keys is None:
            keys = keys_of[address] = parsed_keys(policies.resolve(address).policy.business_keys)
        if keys:
            for name, value in extract(keys, payload, json.loads(headers), loads=loads).items():
                yield row_id, name, value
