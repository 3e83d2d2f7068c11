"""Many messages in, through the API: lines of JSON from a stream, staged and merged slice by slice."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import orjson
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.idempotency import Renew, renew_nothing
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.read_only import require_writable
from poisonadmin.intake.commands.merge import Merged, merge_staged
from poisonadmin.intake.domain import staged_rows
from poisonadmin.intake.domain.envelope import parse_line
from poisonadmin.intake.domain.quick_lines import BYTE_ORDER_MARK, quick_reader, split_lines
from poisonadmin.intake.domain.staged_rows import IntakeRow, intake_row
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope, storable
from poisonadmin.policies.queries import policy_index

SLICE_ROWS = 5000
SLICE_BYTES = 8 * 1024 * 1024
NAMED_REJECTIONS = 1000

_quick = quick_reader(orjson.loads, orjson.dumps, partial(orjson.dumps, option=orjson.OPT_SORT_KEYS))


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that was not taken in, and why. All its bytes are in `rejected_line`."""

    line: int
    code: str
    detail: str


@dataclass(frozen=True)
class BatchResult:
    """The result of a stream. `rejected` names the first thousand of `rejected_count` lines."""

    batch: str
    accepted: int
    duplicates: int
    rejected_count: int
    rejected: list[Rejected]


@dataclass
class _Slice:
    good: list[tuple[int, IntakeRow]] = field(default_factory=list)
    bad: list[tuple[Rejected, bytes]] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= SLICE_BYTES or len(self.good) + len(self.bad) >= SLICE_ROWS


def accept_stream(
    chunks: Iterable[bytes], *, principal: Principal, received_by: str = "api", renew: Renew = renew_nothing
) -> BatchResult:
    """Take in every good line of NDJSON and set every bad one aside with its number and reason.

    Slices of at most 5,000 lines or some 8 MB are committed as they come: when the stream breaks off, the lines before
    stay. A line is never split, so the memory needed is a slice, or the longest line where that is longer.
    A line for an address out of scope is rejected with `not_found`. Errors: `NotAllowed`, `ReadOnly`, what `renew`
    raises.
    """
    principal.require(Permission.INGEST)
    batch = f"batch:{uuid.uuid4()}"
    accepted = duplicates = rejected_count = 0
    rejected: list[Rejected] = []
    for part in _slices(split_lines(chunks, max_bytes=LIMITS.line_bytes), principal):
        require_writable()
        merged = retried(lambda part=part: _store(part, batch, principal.name, received_by, renew))  # type: ignore[misc]
        accepted += merged.accepted
        duplicates += merged.duplicates
        rejected_count += merged.conflicts + len(part.bad)
        if len(rejected) < NAMED_REJECTIONS:
            conflicts = (Rejected(one.line, "message_id_conflict", one.detail) for one in merged.named_conflicts)
            rejected += sorted([*(bad for bad, _ in part.bad), *conflicts], key=lambda one: one.line)
    return BatchResult(batch, accepted, duplicates, rejected_count, rejected[:NAMED_REJECTIONS])


def _slices(lines: Iterable[tuple[int, bytes]], principal: Principal) -> Iterator[_Slice]:
    part = _Slice()
    for number, line in lines:
        raw = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        try:
            part.good.append((number, _read(raw, principal)))
        except InvalidEnvelope as error:
            part.bad.append((Rejected(number, error.code, error.detail), raw))
        part.size_bytes += len(raw)
        if part.is_full:
            yield part
            part = _Slice()
    if part.size_bytes:
        yield part


def _read(raw: bytes, principal: Principal) -> IntakeRow:
    row = _quick(raw)
    if row is not None:
        _refuse_out_of_scope(row[0], principal)
        return row
    envelope = parse_line(raw)
    _refuse_out_of_scope(envelope.address, principal)
    if envelope.dead_letter and envelope.dead_letter.original_address:
        _refuse_out_of_scope(envelope.dead_letter.original_address, principal)
    return intake_row(envelope)


def _refuse_out_of_scope(address: str, principal: Principal) -> None:
    if not principal.sees(address):
        raise InvalidEnvelope("not_found", "address", f"There is no address {address}.")


def _store(part: _Slice, batch: str, actor: str, received_by: str, renew: Renew) -> Merged:
    with transaction.atomic(), connection.cursor() as cursor:
        renew()
        _copy_rejected(cursor, part, batch)
        if not part.good:
            return Merged()
        _copy_good(cursor, part, batch)
        return merge_staged(batch, actor=actor, received_by=received_by)


def _copy_good(cursor: CursorWrapper, part: _Slice, batch: str) -> None:
    cursor.execute(staged_rows.TAKE_IDS, [len(part.good)])
    ids = [row[0] for row in cursor.fetchall()]
    with cursor.copy(staged_rows.BODY_COPY) as copy:
        copy.set_types(staged_rows.BODY_TYPES)
        for row_id, (_, row) in zip(ids, part.good, strict=True):
            copy.write_row(staged_rows.body_row(row_id, row))
    with cursor.copy(staged_rows.STAGED_COPY) as copy:
        copy.set_types(staged_rows.STAGED_TYPES)
        for row_id, (line, row) in zip(ids, part.good, strict=True):
            copy.write_row(staged_rows.staged_row(row_id, row, row[1] or uuid.uuid4().hex, batch=batch, line=line))
    rows = ((row_id, row) for row_id, (_, row) in zip(ids, part.good, strict=True))
    if keys := list(staged_rows.key_rows(rows, policy_index(), loads=orjson.loads)):
        with cursor.copy(staged_rows.KEY_COPY) as copy:
            copy.set_types(staged_rows.KEY_TYPES)
            for key in keys:
                copy.write_row(key)


def _copy_rejected(cursor: CursorWrapper, part: _Slice, batch: str) -> None:
    with cursor.copy(staged_rows.REJECTED_COPY) as copy:
        copy.set_types(staged_rows.REJECTED_TYPES)
        for bad, raw in part.bad:
            copy.write_row((None, None, batch, bad.line, bad.code, storable(bad.detail), raw))
