"""Authentication by token or session, and permissions. `request.auth` is the Principal."""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from poisonadmin.core.commands import authentication as tokens
from poisonadmin.core.commands.authentication import LocalLoginOff, SecondFactorMissing, principal_of_session
from poisonadmin.core.domain.access import Principal
from poisonadmin.web.api.contract import contract_of

SCHEME = "bearer"


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer pa_…`."""

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        """Return the token's owner and principal; None when there is no bearer token."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != SCHEME:
            return None
        found = tokens.authenticate(text.strip())
        if found is None:
            raise AuthenticationFailed("This token is unknown, expired or revoked.")
        return found

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return 'Bearer realm="poisonadmin"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The dashboard's session; what acts needs the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the logged-in user and their principal (None: a user without a role)."""
        found = super().authenticate(request)
        return None if found is None else (found[0], principal_of_session(request._request))  # noqa: SLF001

    def enforce_csrf(self, request: Request) -> None:
        """Compare the token of the header; REST framework would read the body for it, which some endpoints stream."""
        super().enforce_csrf(request._request)  # type: ignore[arg-type]  # noqa: SLF001


def sender_of(request: HttpRequest) -> tuple[str, Principal] | None:
    """Return who sends a request, a key of theirs and what they may, from its headers alone; None for a stranger.

    The token is in force, or the session is that of an active user with a role.
    """
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == SCHEME:
        token = text.strip()
        found = tokens.authenticate(token)
        return None if found is None else (tokens.digest_of(token), found[1])
    request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    request.user = get_user(request)
    try:
        principal = principal_of_session(request)
    except (SecondFactorMissing, LocalLoginOff):
        return None
    return None if principal is None else (f"user {request.user.pk}", principal)


class MayDo(BasePermission):
    """Lets through who holds the permission that the view's contract names for this method."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True; raise NotAuthenticated, PermissionDenied, NotAllowed."""
        if request.auth is None:
            if request.user is not None:
                raise PermissionDenied("This account has no role yet; an administrator gives it one.")
            raise NotAuthenticated("Log in, or send a token as `Authorization: Bearer pa_…`.")
        assert isinstance(request.auth, Principal)
        contract = contract_of(view, request.method)
        if contract is not None:
            request.auth.require_any(*contract.permissions)
        return True
