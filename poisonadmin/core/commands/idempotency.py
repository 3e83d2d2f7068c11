"""The same request sent twice is carried out once, and answered alike both times.

While a request is carried out its session holds an advisory lock on (actor, key), which ends with the session: a
process that dies leaves nothing behind that would have to expire.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.access import IdempotencyKey

MAX_KEY_CHARS = 255
REMEMBERED_BELOW = 500


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


def once(
    actor: str, key: str, request_digest: str, act: Callable[[], StoredAnswer], *, rights: str, in_one_transaction: bool
) -> tuple[StoredAnswer, bool]:
    """Return the answer of `act`, and whether it is one given before; then `act` was not called.

    With `in_one_transaction` what `act` does and the memory of it are committed together; without, `act` commits as it
    goes and a crash in the middle forgets that it began. Answers of 500 and above are not remembered, and are undone.
    `rights`: a digest of what the caller may do and read; an answer is given again to the same rights only.
    Errors: `InvalidIdempotencyKey`, `IdempotencyKeyReused`, `IdempotencyKeyInFlight`, `AnswerWithheld`.
    """
    if not 1 <= len(key) <= MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise InvalidIdempotencyKey(f"Idempotency-Key is 1 to {MAX_KEY_CHARS} printable ASCII characters.")
    with _alone(actor, key):
        if earlier := _earlier(actor, key, request_digest, rights):
            return earlier, True
        if not in_one_transaction:
            answer = act()
            _remember(actor, key, request_digest, answer, rights)
            return answer, False
        with transaction.atomic():
            answer = act()
            if answer.status >= REMEMBERED_BELOW:
                transaction.set_rollback(True)
            else:
                _remember(actor, key, request_digest, answer, rights)
        return answer, False


def _earlier(actor: str, key: str, request_digest: str, rights: str) -> StoredAnswer | None:
    row = IdempotencyKey.objects.filter(actor=actor, key=key).first()
    if row is None or row.status is None or row.response is None:
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


def _remember(actor: str, key: str, request_digest: str, answer: StoredAnswer, rights: str) -> None:
    if answer.status >= REMEMBERED_BELOW:
        return
    head = json.dumps({"media_type": answer.media_type, "location": answer.location, "rights": rights}).encode()
    IdempotencyKey.objects.create(
        actor=actor, key=key, request_digest=request_digest, status=answer.status, response=head + b"\n" + answer.body
    )


@contextmanager
def _alone(actor: str, key: str) -> Iterator[None]:
    """Hold the lock of (actor, key); raise IdempotencyKeyInFlight where somebody else does."""
    digest = hashlib.sha256(json.dumps([actor, key]).encode()).digest()
    number = int.from_bytes(digest[:4], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.IDEMPOTENCY_KEY, number])
        if not cursor.fetchone()[0]:
            raise IdempotencyKeyInFlight("The first request with this Idempotency-Key is still being carried out.")
    try:
        yield
    finally:
        # On a connection that broke the lock is gone already, and the next one must not be asked about it.
        if connection.connection is not None and not connection.connection.closed:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.IDEMPOTENCY_KEY, number])
