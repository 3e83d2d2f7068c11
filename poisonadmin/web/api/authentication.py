"""Who calls: the owner of a token, or whoever is logged in. `request.auth` is the Principal either way."""

from typing import Any

from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from poisonadmin.core.commands import authentication as tokens
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.principals import principal_of_user

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
        return None if found is None else (found[0], principal_of_user(found[0]))
