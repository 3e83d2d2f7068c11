"""Accounts as administrators manage them in pages and API: never beyond what the administrator may do and see.

Whoever is limited to some addresses manages only accounts within them. Nobody gives a role, a scope or an address that
is not his own to give, and nobody changes an account that may do more than he may.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.commands.sessions import end_sessions
from poisonadmin.core.domain.access import PERMISSIONS, NotAllowed, Permission, Principal, Role
from poisonadmin.core.domain.errors import AlreadyExists, NotFound, PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.domain.settings import checked
from poisonadmin.store.models.access import Access, ApiToken
from poisonadmin.system.commands.accounts import (
    NewToken,
    activate,
    create_token,
    cut_off_streams,
    deactivate,
    revoke_token,
)
from poisonadmin.system.domain.accounts import AccountSettings, InvalidAccount
from poisonadmin.system.queries.accounts import AccountRow, get_account


class LastAdmin(PoisonAdminError):
    """Raised when nobody would be left who may manage every account."""

    code = "last_admin"
    status = 409


def check_account(wanted: AccountSettings) -> AccountSettings:
    """Return an account that may be so. Errors: `InvalidAccount`."""
    return checked(wanted, InvalidAccount)


def create_account(wanted: AccountSettings, *, password: str | None = None, principal: Principal) -> None:
    """Create an account; without a password it is let in by `password_link`.

    Errors: `NotAllowed`, `InvalidAccount`, `AlreadyExists`.
    """
    principal.require(Permission.CONFIGURE)
    wanted = check_account(wanted)
    _require_giving(wanted.role, wanted.patterns, principal)
    with transaction.atomic():
        _hold()
        # Logins do not tell capital letters from small ones.
        if User.objects.filter(username__iexact=wanted.name).exists():
            raise AlreadyExists(f"There is an account {wanted.name} already.")
        user = User(username=wanted.name)
        _set_password(user, password)
        Access.objects.create(user=user, role=wanted.role, address_patterns=wanted.patterns)
        details = {"role": wanted.role, "address_patterns": wanted.patterns}
        audit.record(principal.name, "user.created", "user", wanted.name, details=details)


def change_account(
    name: str, *, role: str | None = None, patterns: Sequence[str] | None = None, principal: Principal
) -> None:
    """Give an account another role or other addresses; None: as it is.

    Errors: `NotAllowed`, `NotFound`, `InvalidAccount`, `LastAdmin`.
    """
    with transaction.atomic():
        account = _managed(name, principal)
        given = AccountSettings(
            name="-", role=role or account.role or "", patterns=list(account.patterns if patterns is None else patterns)
        )
        wanted = check_account(given)
        _require_giving(wanted.role, wanted.patterns, principal)
        if wanted.role != Role.ADMIN or wanted.patterns:
            _require_another_admin(account)
        values = {"role": wanted.role, "address_patterns": wanted.patterns}
        Access.objects.update_or_create(user_id=account.id, defaults=values)
        details = {**values, "was": {"role": account.role, "address_patterns": account.patterns}}
        audit.record(principal.name, "user.saved", "user", name, details=details)
        cut_off_streams()


def patch_account(name: str, changes: Mapping[str, Any], *, principal: Principal) -> None:
    """Change what is named: `role`, `patterns`, `password`, `is_active`; all of it or nothing.

    Errors: those of the commands below.
    """
    with transaction.atomic():
        given = {field: changes[field] for field in ("role", "patterns") if field in changes}
        if given:
            change_account(name, **given, principal=principal)
        if "password" in changes:
            set_password(name, changes["password"], principal=principal)
        if "is_active" in changes:
            (reopen_account if changes["is_active"] else close_account)(name, principal=principal)


def close_account(name: str, *, principal: Principal) -> None:
    """End an account's logins, sessions, tokens and streams at once; its history stays.

    Errors: `NotAllowed`, `NotFound`, `LastAdmin`.
    """
    with transaction.atomic():
        account = _managed(name, principal)
        _require_another_admin(account)
        if account.is_active:
            deactivate(name, by=principal.name)


def reopen_account(name: str, *, principal: Principal) -> None:
    """Let a closed account log in again; its tokens are in force again. Errors: `NotAllowed`, `NotFound`."""
    with transaction.atomic():
        if not _managed(name, principal).is_active:
            activate(name, by=principal.name)


def set_password(name: str, password: str, *, principal: Principal) -> None:
    """Give an account a password, and end its sessions. Errors: `NotAllowed`, `NotFound`, `InvalidAccount`."""
    with transaction.atomic():
        account = _managed(name, principal)
        _require_local(account)
        _set_password(User.objects.get(id=account.id), password)
        end_sessions(account.id)
        audit.record(principal.name, "user.password_set", "user", name)


def password_link(name: str, *, principal: Principal) -> str:
    """Return the path at which whoever has it sets the account's password, once, within a day.

    Errors: `NotAllowed`, `NotFound`, `InvalidAccount` where the account is closed.
    """
    with transaction.atomic():
        account = _managed(name, principal)
        _require_local(account)
        if not account.is_active:
            raise InvalidAccount("name", "this account is closed")
        user = User.objects.get(id=account.id)
        audit.record(principal.name, "user.password_link_created", "user", name)
    key = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("account_set_password", args=[key, default_token_generator.make_token(user)])


def reset_second_factors(name: str, *, principal: Principal) -> None:
    """Take an account's second factors away, and end its sessions; its next login sets up others where the role needs
    one. Nobody resets his own: who has the account's password only would get in so.

    Errors: `NotAllowed`, `NotFound`.
    """
    with transaction.atomic():
        account = _managed(name, principal)
        if principal.user == f"user {account.id}":
            raise NotAllowed("Another administrator resets your second factors.")
        Authenticator.objects.filter(user_id=account.id).delete()
        end_sessions(account.id)
        details = {"types": account.second_factors}
        audit.record(principal.name, "user.second_factors_reset", "user", name, details=details)


def create_account_token(
    name: str,
    label: str,
    *,
    scopes: Sequence[str] | None = None,
    patterns: Sequence[str] = (),
    expires_in_days: int | None = None,
    principal: Principal,
) -> NewToken:
    """Make a token of an account; `scopes` None: whatever its role and the principal both may.

    Errors: `NotAllowed`, `NotFound`, `InvalidToken`, `InvalidAddress`.
    """
    with transaction.atomic():
        account = _managed(name, principal)
        may = PERMISSIONS[Role(account.role)] if account.role else frozenset()
        given = sorted(may) if scopes is None else scopes
        if refused := sorted(set(given).intersection(Permission) - principal.permissions):
            raise NotAllowed(f"{principal.name} does not have {', '.join(refused)}, and cannot give it.")
        return create_token(
            User.objects.get(id=account.id),
            label,
            scopes=given,
            by=principal.name,
            patterns=patterns,
            expires_at=datetime.now(UTC) + timedelta(days=expires_in_days) if expires_in_days else None,
        )


def revoke_account_token(name: str, token_id: int, *, principal: Principal) -> None:
    """Refuse the token from now on. Errors: `NotAllowed`, `NotFound`."""
    with transaction.atomic():
        account = _managed(name, principal)
        if not ApiToken.objects.filter(id=token_id, user_id=account.id).exists():
            raise NotFound(f"There is no token {token_id} to be revoked.")
        revoke_token(token_id, by=principal.name)


def end_session(name: str, key: str, *, principal: Principal) -> None:
    """End one session of an account; of one's own no permission is needed. Errors: `NotAllowed`, `NotFound`."""
    with transaction.atomic():
        is_own = principal.user == f"user {User.objects.filter(username=name).values_list('id', flat=True).first()}"
        account_id = int(principal.user.removeprefix("user ")) if is_own else _managed(name, principal).id
        if not end_sessions(account_id, key=key):
            raise NotFound(f"There is no session {key[:20]}.")
        cut_off_streams()
        audit.record(principal.name, "user.session_ended", "user", name, details={"session": key})


def _managed(name: str, principal: Principal) -> AccountRow:
    """Return the account that is about to be changed, while nobody else changes accounts."""
    _hold()
    account = get_account(name, principal=principal)
    if account.role and not principal.holds(Role(account.role)):
        raise NotAllowed(f"The account {name} may do more than {principal.name}, who cannot change it.")
    return account


def _hold() -> None:
    with connection.cursor() as cursor:
        locks.hold(cursor, Lock.CONFIGURATION)


def _require_giving(role: str, patterns: Sequence[str], principal: Principal) -> None:
    if not principal.holds(Role(role)):
        raise NotAllowed(f"The role {role} may do more than {principal.name}, who cannot give it.")
    if not principal.covers_all(patterns):
        raise NotAllowed(f"These addresses reach beyond those that {principal.name} is limited to.")


def _require_another_admin(account: AccountRow) -> None:
    admins = User.objects.filter(is_active=True, access__role=Role.ADMIN, access__address_patterns=[])
    if not admins.exclude(id=account.id).exists() and admins.exists():
        raise LastAdmin(f"{account.name} is the last administrator without a limit; nobody could manage accounts.")


def _require_local(account: AccountRow) -> None:
    if account.has_sign_on:
        raise InvalidAccount("password", "this account logs in by single sign-on and has none")


def _set_password(user: User, password: str | None) -> None:
    try:
        if password is not None:
            validate_password(password, user)
    except ValidationError as error:
        raise InvalidAccount("password", " ".join(error.messages)) from None
    user.set_password(password)
    user.save()
