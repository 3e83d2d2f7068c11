"""The same request sent twice is carried out once, and answered alike both times.

While a request is carried out its transaction holds an advisory lock on (actor, key), which ends with the transaction:
a process that dies leaves nothing behind that would have to expire. A request of several transactions is a row without
an answer meanwhile, which each of them renews. Nothing here needs a session, so a pooler may give each transaction
another one.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from django.db import Error, connection, transaction

from poisonadmin.core.commands.locks import try_lock
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.access import IdempotencyKey

MAX_KEY_CHARS = 255
REMEMBERED_BELOW = 500
# A request that has renewed nothing for so long, and renews nothing now, was that of a process that is gone.
LEASE_SECONDS = 30
Renew = Callable[[], None]
"""Says, first in each transaction of a request, that it is still being carried out. Errors: `IdempotencyKeyInFlight`,
when another one has been begun since."""


_IN_FLIGHT = "The first request with this Idempotency-Key is still being carried out."
_RENEW = "UPDATE idempotency_key SET created_at = clock_timestamp() WHERE id = %s"
_FORGET = "DELETE FROM idempotency_key WHERE id = %s AND created_at < clock_timestamp() - %s * interval '1 s'"


class InvalidIdempotencyKey(PoisonAdminError):
    """Raised when the key is empty, too long, or not printable ASCII."""

    code = "invalid_idempotency_key"


class IdempotencyKeyReused(PoisonAdminError):
    """Raised when the key came with another request before."""

    code = "idempotency_key_reused"
    status = 422


class AnswerWithheld(PoisonAdminError):
    """Raised when the request was carried out before, and the caller's rights have changed since."""

    code = "answer_withheld"
    status = 409


class IdempotencyKeyInFlight(PoisonAdminError):
    """Raised while the first request with this key is being carried out."""

    code = "idempotency_key_in_flight"
    status = 409


@dataclass(frozen=True)
class StoredAnswer:
    """The answer that a request got."""

    status: int
    media_type: str
    body: bytes
    location: str | None = None


def renew_nothing() -> None:
    """Do nothing: a request in one transaction holds its lock, and one without a key none."""


def once(
    actor: str,
    key: str,
    request_digest: str,
    act: Callable[[Renew], StoredAnswer],
    *,
    rights: str,
    in_one_transaction: bool,
) -> tuple[StoredAnswer, bool]:
    """Return the answer of `act`, and whether it is one given before; then `act` was not called.

    With `in_one_transaction` what `act` does and the memory of it are committed together; without, `act` commits as it
    goes, renews in each transaction, and a crash in the middle forgets that it began, `LEASE_SECONDS` later. Answers of
    500 and above are not remembered, and are undone.
    `rights`: a digest of what the caller may do and read; an answer is given again to the same rights only.
    Errors: `InvalidIdempotencyKey`, `IdempotencyKeyReused`, `IdempotencyKeyInFlight`, `AnswerWithheld`.
    """
    if not 1 <= len(key) <= MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise InvalidIdempotencyKey(f"Idempotency-Key is 1 to {MAX_KEY_CHARS} printable ASCII characters.")
    with transaction.atomic():
        _be_alone(actor, key)
        if earlier := _earlier(actor, key, request_digest, rights):
            return earlier, True
        own = IdempotencyKey(actor=actor, key=key, request_digest=request_digest)
        if in_one_transaction:
            answer = act(renew_nothing)
            if answer.status < REMEMBERED_BELOW:
                _remember(own, answer, rights)
            else:
                transaction.set_rollback(True)
            return answer, False
        own.save(force_insert=True)
    try:
        answer = act(lambda: _renew(own))
        if answer.status < REMEMBERED_BELOW:
            with transaction.atomic():
                _renew(own)
                _remember(own, answer, rights)
        return answer, False
    finally:
        if own.status is None:
            # A process or a database that is gone leaves the row to the lease.
            with suppress(Error):
                IdempotencyKey.objects.filter(id=own.id).delete()


def _earlier(actor: str, key: str, request_digest: str, rights: str) -> StoredAnswer | None:
    row = IdempotencyKey.objects.filter(actor=actor, key=key).first()
    if row is None:
        return None
    if row.status is None or row.response is None:
        _take_over(row.id)
        return None
    if row.request_digest != request_digest:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request; nothing was done.")
    head, _, body = bytes(row.response).partition(b"\n")
    fields = json.loads(head)
    # Those that an earlier version has kept say nothing of rights.
    if fields.pop("rights", None) != rights:
        raise AnswerWithheld(
            "This request was carried out when it came first, and not again. Its answer is not repeated, since what you"
            " may do or read has changed."
        )
    return StoredAnswer(status=row.status, body=body, **fields)


def _remember(own: IdempotencyKey, answer: StoredAnswer, rights: str) -> None:
    head = json.dumps({"media_type": answer.media_type, "location": answer.location, "rights": rights}).encode()
    own.status, own.response = answer.status, head + b"\n" + answer.body
    own.save()


def _be_alone(actor: str, key: str) -> None:
    """Hold the lock of (actor, key) until the transaction ends; raise IdempotencyKeyInFlight where another one does."""
    digest = hashlib.sha256(json.dumps([actor, key]).encode()).digest()
    with connection.cursor() as cursor:
        if not try_lock(cursor, Lock.IDEMPOTENCY_KEY, int.from_bytes(digest[:4], signed=True)):
            raise IdempotencyKeyInFlight(_IN_FLIGHT)


def _take_over(row_id: int) -> None:
    """Forget a request that was begun and is carried out no more; raise IdempotencyKeyInFlight where it still may be.

    Waits for a transaction that has renewed the row. Its request's next one finds the row gone, and gives up.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [row_id, LEASE_SECONDS])
        if not cursor.rowcount:
            raise IdempotencyKeyInFlight(_IN_FLIGHT)


def _renew(own: IdempotencyKey) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, [own.id])
        if not cursor.rowcount:
            raise IdempotencyKeyInFlight("This request stood still for so long that it was begun anew by another one.")
