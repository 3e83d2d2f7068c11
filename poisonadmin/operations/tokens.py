"""API tokens: `pa_` and 256 random bits, kept as their SHA-256, never more powerful than their owner."""

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.db.models.functions import Now

from poisonadmin.domain.access import Permission, Principal, Role, principal
from poisonadmin.domain.addresses import validate_pattern
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.operations import audit
from poisonadmin.queries.poison_feed import CHANNEL, REVOKED
from poisonadmin.queries.rows import fetch_one
from poisonadmin.store.models import Access, ApiToken

PREFIX = "pa_"
MAX_NAME_CHARS = 100


class InvalidToken(PoisonAdminError):
    """Raised when a token is to be made with a name, scope or owner that cannot be."""

    code = "invalid_token"


class TokenNotFound(PoisonAdminError):
    """Raised when there is no such token, or it is revoked already."""

    code = "not_found"
    status = 404


@dataclass(frozen=True)
class NewToken:
    """`text` is shown this once."""

    id: int
    text: str


def create(
    user: User,
    name: str,
    *,
    scopes: Sequence[str],
    by: str,
    patterns: Sequence[str] = (),
    expires_at: datetime | None = None,
) -> NewToken:
    """Make a token of the user. What a scope would allow beyond the user's role it does not.

    Errors: `InvalidToken`, `InvalidAddress`.
    """
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise InvalidToken(f"A token's name is 1 to {MAX_NAME_CHARS} printable characters.")
    if unknown := sorted(set(scopes) - set(Permission)):
        raise InvalidToken(f"There is no scope {', '.join(unknown)}; those are {', '.join(Permission)}.")
    if not Access.objects.filter(user=user).exists():
        raise InvalidToken(f"{user.get_username()} has no role; a token of theirs could do nothing.")
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiToken.objects.create(
            user=user,
            name=name,
            digest=digest_of(text),
            scopes=sorted(set(scopes)),
            address_patterns=[validate_pattern(pattern) for pattern in patterns],
            expires_at=expires_at,
        )
        details = {"name": name, "scopes": row.scopes, "address_patterns": row.address_patterns}
        audit.record(by, "token.created", "token", str(row.id), details=details | {"user": user.get_username()})
    return NewToken(row.id, text)


def revoke(token_id: int, *, by: str) -> None:
    """Refuse the token from now on. Errors: `TokenNotFound`."""
    with transaction.atomic():
        if not ApiToken.objects.filter(id=token_id, revoked_at=None).update(revoked_at=Now()):
            raise TokenNotFound(f"There is no token {token_id} to be revoked.")
        audit.record(by, "token.revoked", "token", str(token_id))
        with connection.cursor() as cursor:
            # Whoever follows the poison list with it is cut off at once.
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, REVOKED])


def authenticate(text: str) -> tuple[User, Principal] | None:
    """Return the owner of a token that is in force and what the token may do; None for any other text.

    The owner is not read whole: only its id and name are set.
    """
    if not text.startswith(PREFIX) or not text.isascii():
        return None
    found = fetch_one(_InForce, _IN_FORCE, [digest_of(text)])
    if found is None:
        return None
    if found.is_use_unnoted:
        _note_use(found.id)
    return User(id=found.user_id, username=found.username), _principal(found)


def _note_use(token_id: int) -> None:
    """Write down that a token is used. A database that takes no writes must not keep readers out."""
    with contextlib.suppress(DatabaseError), transaction.atomic():
        ApiToken.objects.filter(id=token_id).update(last_used_at=Now())


def digest_of(text: str) -> str:
    """Return what is kept of a token. It is random through and through: a slow hash would add nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class _InForce:
    id: int
    name: str
    scopes: list[str]
    token_patterns: list[str]
    user_id: int
    username: str
    role: str
    user_patterns: list[str]
    is_use_unnoted: bool


# Asked with every request; by hand because composing it through the ORM took a third of a small request's time.
_IN_FORCE = """
SELECT t.id, t.name, t.scopes, t.address_patterns AS token_patterns, u.id AS user_id, u.username, a.role,
       a.address_patterns AS user_patterns,
       coalesce(t.last_used_at < now() - interval '1 minute', true) AS is_use_unnoted
FROM api_token t JOIN auth_user u ON u.id = t.user_id JOIN access a ON a.user_id = u.id
WHERE t.digest = %s AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()) AND u.is_active
"""


def _principal(token: _InForce) -> Principal:
    owner = principal(token.username, Role(token.role), token.user_patterns)
    patterns = (*owner.patterns, tuple(token.token_patterns)) if token.token_patterns else owner.patterns
    return replace(
        owner,
        name=f"{owner.name} via {token.name}",
        permissions=owner.permissions.intersection(token.scopes),
        patterns=patterns,
    )
