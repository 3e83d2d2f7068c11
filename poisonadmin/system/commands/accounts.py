"""Users as administrators switch them off and on, API tokens as they make and revoke them, and the first of each.

A token is `pa_` and 256 random bits, kept as their SHA-256.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands import audit
from poisonadmin.core.commands.authentication import MAX_NAME_CHARS, PREFIX, InvalidToken, digest_of
from poisonadmin.core.commands.sessions import end_sessions
from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.core.domain.addresses import validate_pattern
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL
from poisonadmin.core.domain.secret_settings import write_private
from poisonadmin.poison_list.queries.feed import REVOKED
from poisonadmin.store.models.access import Access, ApiToken


def deactivate(username: str, *, by: str) -> None:
    """Refuse the user from now on: login, sessions, tokens and event streams. Errors: `NotFound`."""
    with transaction.atomic():
        user = _switched(username, is_active=False)
        end_sessions(user.pk)
        audit.record(by, "user.deactivated", "user", username)
        cut_off_streams()


def activate(username: str, *, by: str) -> None:
    """Let the user log in again; their tokens are in force again, their sessions are not. Errors: `NotFound`."""
    with transaction.atomic():
        _switched(username, is_active=True)
        audit.record(by, "user.activated", "user", username)


def cut_off_streams() -> None:
    """Have every stream of the poison list ask again at once whether its reader may still read it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [POISON_LIST_CHANNEL, REVOKED])


def _switched(username: str, *, is_active: bool) -> User:
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username}.")
    user.is_active = is_active
    user.save(update_fields=["is_active"])
    return user


@dataclass(frozen=True)
class NewToken:
    """`text` is shown this once."""

    id: int
    text: str


def create_token(
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
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidToken("A token expires in the future; this time has passed.")
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


def revoke_token(token_id: int, *, by: str) -> None:
    """Refuse the token from now on. Errors: `NotFound`."""
    with transaction.atomic():
        if not ApiToken.objects.filter(id=token_id, revoked_at=None).update(revoked_at=Now()):
            raise NotFound(f"There is no token {token_id} to be revoked.")
        audit.record(by, "token.revoked", "token", str(token_id))
        cut_off_streams()


ADMIN = "admin"
TOKEN_NAME = "bootstrap"  # noqa: S105  (a name, not a secret)
TOKEN_FILE = "admin-token"  # noqa: S105
PASSWORD_BYTES = 15


@dataclass(frozen=True)
class Bootstrapped:
    """`password` is known to nobody else and shown this once."""

    username: str
    password: str
    token_file: Path


def bootstrap(home: Path, *, password: str | None = None) -> Bootstrapped | None:
    """Create the user `admin` and a token with every scope in `home/admin-token` (mode 600); None where `admin` exists.

    The password is random unless given.
    """
    if User.objects.filter(username=ADMIN).exists():
        return None
    password = password or secrets.token_urlsafe(PASSWORD_BYTES)
    path = home / TOKEN_FILE
    try:
        with transaction.atomic():
            user = User.objects.create_user(ADMIN, password=password)
            Access.objects.create(user=user, role=Role.ADMIN)
            audit.record("system", "user.created", "user", ADMIN, details={"role": Role.ADMIN})
            token = create_token(user, TOKEN_NAME, scopes=list(Permission), by="system")
            # Written before the commit: a token that is in force and in no file would be of no use to anyone.
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, f"{token.text}\n")
    except IntegrityError:
        # Another start made it a moment before us.
        return None
    return Bootstrapped(ADMIN, password, path)
