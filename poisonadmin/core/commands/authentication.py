"""API tokens as callers show them: looked up by their SHA-256, never more powerful than their owner."""

import contextlib
import hashlib
from dataclasses import dataclass, replace
from typing import Any

from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models.functions import Now

from poisonadmin.core.domain.access import Principal, Role, principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.store.models.access import Access, ApiToken

PREFIX = "pa_"
MAX_NAME_CHARS = 100
# Asked with every request; by hand because composing it through the ORM took a third of a small request's time.
_TOKENS = """
SELECT t.id, t.name, t.scopes, t.address_patterns AS token_patterns, u.id AS user_id, u.username, a.role,
       a.address_patterns AS user_patterns,
       coalesce(t.last_used_at < now() - interval '1 minute', true) AS is_use_unnoted
FROM api_token t JOIN auth_user u ON u.id = t.user_id JOIN access a ON a.user_id = u.id
WHERE t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()) AND u.is_active
"""
_IN_FORCE = f"{_TOKENS} AND t.digest = %s"


def principal_of_user(user: Any) -> Principal | None:
    """Return the principal of a logged-in, active user; None for anyone else and for a user without a role."""
    if not user.is_authenticated or not user.is_active:
        return None
    access = Access.objects.filter(user_id=user.pk).first()
    if access is None:
        return None
    found = principal(user.get_username(), Role(access.role), access.address_patterns)
    return replace(found, account=f"user {user.pk}", user=f"user {user.pk}")


class SecondFactorMissing(PoisonAdminError):
    """Raised when a session of a role that needs a second factor has begun without one."""

    code = "second_factor_missing"
    status = 403


class LocalLoginOff(PoisonAdminError):
    """Raised when a session has begun with a password, and passwords are switched off."""

    code = "local_login_off"
    status = 403


def principal_of_session(request: Any) -> Principal | None:
    """Return the principal of a request's session, None where it has none.

    Errors: `SecondFactorMissing`, `LocalLoginOff`.

    Whatever way the session began: it names the ways in which the person has proved who it is.
    """
    found = principal_of_user(request.user)
    if found is None:
        return None
    methods = {one["method"] for one in get_authentication_records(request, request.user)}
    if not settings.LOCAL_LOGIN and "socialaccount" not in methods:
        raise LocalLoginOff("Passwords are switched off here. Log out, then in by single sign-on.")
    if found.role in settings.MFA_ROLES and "mfa" not in methods:
        raise SecondFactorMissing(f"The role {found.role} needs a second factor: set one up, then log in with it.")
    return found


def principal_of_account(account: str) -> Principal | None:
    """Return what the user or the token of a principal's `account` may do now; None where it is not in force."""
    kind, _, number = account.partition(" ")
    if not number.isdecimal():
        return None
    if kind == "token":
        found = fetch_one(_InForce, f"{_TOKENS} AND t.id = %s", [int(number)])
        return None if found is None else _principal(found)
    user = User.objects.filter(id=int(number)).first() if kind == "user" else None
    return None if user is None else principal_of_user(user)


class InvalidToken(PoisonAdminError):
    """Raised when a new token has an invalid name, scope or owner."""

    code = "invalid_token"


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


def _principal(token: _InForce) -> Principal:
    owner = principal(token.username, Role(token.role), token.user_patterns)
    patterns = (*owner.patterns, tuple(token.token_patterns)) if token.token_patterns else owner.patterns
    return replace(
        owner,
        name=f"{owner.name} via {token.name}",
        permissions=owner.permissions.intersection(token.scopes),
        patterns=patterns,
        account=f"token {token.id}",
        user=f"user {token.user_id}",
        owner="" if token.token_patterns else owner.name,
    )
