"""API tokens as administrators make and revoke them: `pa_` and 256 random bits, kept as their SHA-256."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.authentication import MAX_NAME_CHARS, PREFIX, InvalidToken, digest_of
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.addresses import validate_pattern
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL
from poisonadmin.poison_list.queries.feed import REVOKED
from poisonadmin.store.models.access import Access, ApiToken


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
        raise InvalidToken(f"{user.get_username()} has no role; their token could do nothing.")
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
    """Refuse the token from now on. Errors: `NotFound`."""
    with transaction.atomic():
        if not ApiToken.objects.filter(id=token_id, revoked_at=None).update(revoked_at=Now()):
            raise NotFound(f"There is no token {token_id} to be revoked.")
        audit.record(by, "token.revoked", "token", str(token_id))
        with connection.cursor() as cursor:
            # Whoever follows the poison list with it is cut off at once.
            cursor.execute("SELECT pg_notify(%s, %s)", [POISON_LIST_CHANNEL, REVOKED])
