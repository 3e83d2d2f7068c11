"""API tokens: `pa_` and 256 random bits, kept as their SHA-256, never more powerful than their owner."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from poisonadmin.domain.access import Permission, Principal, Role, principal
from poisonadmin.domain.addresses import validate_pattern
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.operations import audit
from poisonadmin.store.models import Access, ApiToken

PREFIX = "pa_"
MAX_NAME_CHARS = 100
LAST_USED_EVERY = timedelta(minutes=1)


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


def authenticate(text: str) -> tuple[Any, Principal] | None:
    """Return the owner of a token that is in force and what the token may do; None for any other text."""
    if not text.startswith(PREFIX) or not text.isascii():
        return None
    row = ApiToken.objects.select_related("user__access").filter(digest=digest_of(text), revoked_at=None).first()
    now = timezone.now()
    if row is None or not row.user.is_active or (row.expires_at is not None and row.expires_at <= now):
        return None
    access = getattr(row.user, "access", None)
    if access is None:
        return None
    if row.last_used_at is None or row.last_used_at < now - LAST_USED_EVERY:
        ApiToken.objects.filter(id=row.id).update(last_used_at=Now())
    return row.user, _principal(row, access)


def digest_of(text: str) -> str:
    """Return what is kept of a token. It is random through and through: a slow hash would add nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


def _principal(row: ApiToken, access: Access) -> Principal:
    owner = principal(row.user.get_username(), Role(access.role), access.address_patterns)
    patterns = (*owner.patterns, tuple(row.address_patterns)) if row.address_patterns else owner.patterns
    return replace(
        owner,
        name=f"{owner.name} via {row.name}",
        permissions=owner.permissions & {Permission(scope) for scope in row.scopes if scope in set(Permission)},
        patterns=patterns,
    )
