"""The failure that a dead letter reports when it is handed in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from poisonadmin.messages.domain import envelope_fields as read
from poisonadmin.messages.domain.envelope_fields import LIMITS, InvalidEnvelope

MAX_DELIVERY_COUNT = 2**31 - 1
MAX_ID = 2**63 - 1
MAX_MOVES = 100
MAX_NAME_CHARS = 255


@dataclass(frozen=True, slots=True)
class Move:
    """One hop of a message inside a broker, as the broker tells of it: from where, why, when, how often.

    `queue` and `to` are the broker's names, not addresses. `count`: how often it made this hop.
    """

    queue: str
    reason: str
    at: datetime | None = None
    count: int = 1
    to: str | None = None


@dataclass(frozen=True, slots=True)
class CameBack:
    """The return that a dead letter reports: PoisonAdmin had delivered it, as this attempt at this message."""

    message_id: int
    attempt_number: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Another system's word on why it gave up. All is optional; texts are cut to `LIMITS`, never refused for length.

    `cause_class`: the class of the exception that a wrapper was thrown for. `moves` (oldest first) and `came_back` are
    read off a broker's headers, never handed in.
    """

    reason: str | None = None
    exception_class: str | None = None
    exception_message: str | None = None
    stack: str | None = None
    original_address: str | None = None
    failed_at: datetime | None = None
    delivery_count: int | None = None
    cause_class: str | None = None
    moves: tuple[Move, ...] = field(default=())
    came_back: CameBack | None = None


FIELDS = frozenset(DeadLetter.__dataclass_fields__) - {"moves", "came_back"}


def parse_dead_letter(fields: Mapping[str, object]) -> DeadLetter | None:
    """Return the `dead_letter` of an envelope, None where it is absent or null.

    Errors: `InvalidEnvelope` with code `unknown_field`, `invalid_dead_letter`, `invalid_address`, `invalid_time`.
    """
    found = fields.get("dead_letter")
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise InvalidEnvelope("invalid_dead_letter", "dead_letter", "dead_letter must be an object.")
    read.refuse_unknown(found, FIELDS, inside="dead_letter.")
    moved = found.get("original_address") is not None
    return DeadLetter(
        reason=read.described(found, "reason", LIMITS.reason_chars),
        exception_class=read.described(found, "exception_class", LIMITS.exception_class_chars),
        exception_message=read.described(found, "exception_message", LIMITS.exception_message_chars),
        cause_class=read.described(found, "cause_class", LIMITS.exception_class_chars),
        stack=read.described(found, "stack", LIMITS.stack_chars),
        # Approval puts the message there, so it has to be an address of ours.
        original_address=read.address(found, "original_address", name="dead_letter.original_address")
        if moved
        else None,
        failed_at=read.instant(found, "failed_at", name="dead_letter.failed_at"),
        delivery_count=_delivery_count(found),
    )


def as_far_as_stored(letter: DeadLetter) -> DeadLetter:
    """Return what a broker's headers told as it can be kept: cut to size, without NUL, numbers within their columns.

    Of more than 100 moves the first ten and the last ninety are kept. A way back that no message of ours can have is
    none; so is a time without its zone.
    """
    moves = letter.moves if len(letter.moves) <= MAX_MOVES else (*letter.moves[:10], *letter.moves[10 - MAX_MOVES :])
    back = letter.came_back
    return DeadLetter(
        reason=_kept(letter.reason, LIMITS.reason_chars),
        exception_class=_kept(letter.exception_class, LIMITS.exception_class_chars),
        exception_message=_kept(letter.exception_message, LIMITS.exception_message_chars),
        stack=_kept(letter.stack, LIMITS.stack_chars),
        original_address=letter.original_address,
        failed_at=_zoned(letter.failed_at),
        delivery_count=None if letter.delivery_count is None else _count(letter.delivery_count),
        cause_class=_kept(letter.cause_class, LIMITS.exception_class_chars),
        moves=tuple(map(_kept_move, moves)),
        came_back=back if back and 0 < back.message_id <= MAX_ID and 0 < back.attempt_number < 2**31 else None,
    )


def _kept_move(move: Move) -> Move:
    return Move(
        queue=_kept(move.queue, MAX_NAME_CHARS) or "",
        reason=_kept(move.reason, LIMITS.reason_chars) or "",
        at=_zoned(move.at),
        count=_count(move.count),
        to=_kept(move.to, MAX_NAME_CHARS),
    )


def _kept(text: str | None, most_chars: int) -> str | None:
    return None if text is None else read.storable(text[:most_chars])


def _count(number: int) -> int:
    return min(max(number, 0), MAX_DELIVERY_COUNT)


def _zoned(at: datetime | None) -> datetime | None:
    return at if at is not None and at.tzinfo is not None else None


def _delivery_count(found: Mapping[str, object]) -> int | None:
    value = found.get("delivery_count")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_DELIVERY_COUNT:
        detail = f"delivery_count must be a whole number within 0..{MAX_DELIVERY_COUNT}."
        raise InvalidEnvelope("invalid_dead_letter", "dead_letter.delivery_count", detail)
    return value
