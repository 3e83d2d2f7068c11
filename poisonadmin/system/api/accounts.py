"""Accounts, their tokens and sessions, for those who may configure; and what the caller may."""

from dataclasses import dataclass
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.core.queries.sessions import SessionRow, sessions_of
from poisonadmin.system.commands import managed_accounts as commands
from poisonadmin.system.domain.accounts import MAX_EXPIRY_DAYS, MAX_PATTERNS, AccountSettings
from poisonadmin.system.queries.accounts import (
    AccountRow,
    TokenRow,
    get_account,
    list_accounts,
    tokens_of,
)
from poisonadmin.web.api.contract import Paged, SettingsInput, StrictSerializer, Text, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

MAX_PASSWORD_CHARS = 1000


@dataclass(frozen=True)
class NewTokenRow:
    """A token as it is shown this once."""

    id: int
    token: str


@dataclass(frozen=True)
class LinkRow:
    """The address at which whoever has it sets the account's password, once, within a day."""

    link: str


@dataclass(frozen=True)
class Caller:
    """The caller of a request. `patterns`: lists of patterns, all of which must match; none: every address."""

    name: str
    role: str
    permissions: list[str]
    patterns: list[list[str]]


ACCOUNT = Shape("Account", AccountRow, kinds={"role": Role | None}, leave_out=("id",))
TOKEN = Shape("ApiToken", TokenRow)
NEW_TOKEN = Shape("NewApiToken", NewTokenRow)
SESSION = Shape("Session", SessionRow)
LINK = Shape("PasswordLink", LinkRow)
CALLER = Shape("Caller", Caller, kinds={"role": Role})


def _patterns(**how: Any) -> serializers.ListField:
    return serializers.ListField(child=Text(max_length=MAX_ADDRESS_CHARS), max_length=MAX_PATTERNS, **how)


class AccountInput(SettingsInput):
    """`password` left out: let the person in with a link (`POST /accounts/{name}/link/`)."""

    settings = settings_of(AccountSettings)
    password = Text(max_length=MAX_PASSWORD_CHARS, required=False, trim_whitespace=False)


class AccountChange(StrictSerializer):
    """Changes of an account; what is left out stays. `is_active` false closes the account, true opens it again."""

    role = serializers.ChoiceField(choices=[str(role) for role in Role], required=False)
    patterns = _patterns(required=False)
    password = Text(max_length=MAX_PASSWORD_CHARS, required=False, trim_whitespace=False)
    is_active = serializers.BooleanField(required=False)


class TokenInput(StrictSerializer):
    """`scopes` left out: whatever the account's role may. `patterns`: limits beside those of the account."""

    label = Text(max_length=100)  # type: ignore[assignment]
    expires_in_days = serializers.IntegerField(min_value=1, max_value=MAX_EXPIRY_DAYS, required=False, allow_null=True)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[str(one) for one in Permission]), required=False
    )
    patterns = _patterns(required=False)


class AccountList(ApiView):
    """`/accounts/`."""

    @contract(Permission.CONFIGURE, "accounts", {200: Paged(ACCOUNT)})
    def get(self) -> Response:
        """List the accounts within the caller's addresses by name, closed ones too."""
        return self.whole(ACCOUNT, list_accounts(principal=self.principal))

    @contract(Permission.CONFIGURE, "accounts", {201: ACCOUNT}, body=AccountInput)
    def post(self) -> Response:
        """Create an account; 409 when the name is taken."""
        given = dict(self.body)
        password = given.pop("password", None)
        commands.create_account(AccountSettings(**given), password=password, principal=self.principal)
        account = get_account(given["name"], principal=self.principal)
        response = Response(ACCOUNT.render(account), status=201)
        response["Location"] = self.request.build_absolute_uri(f"{account.name}/")
        return response


class AccountOne(ApiView):
    """`/accounts/{name}/`."""

    @contract(Permission.CONFIGURE, "accounts", {200: ACCOUNT})
    def get(self, name: str) -> Response:
        """Show an account."""
        return Response(ACCOUNT.render(get_account(name, principal=self.principal)))

    @contract(Permission.CONFIGURE, "accounts", {200: ACCOUNT}, body=AccountChange)
    def patch(self, name: str) -> Response:
        """Change role, addresses or password, close the account or open it again."""
        commands.patch_account(name, self.body, principal=self.principal)
        return Response(ACCOUNT.render(get_account(name, principal=self.principal)))

    @contract(Permission.CONFIGURE, "accounts", {204: None})
    def delete(self, name: str) -> Response:
        """Close an account: its logins, sessions, tokens and streams end at once. Its history stays."""
        commands.close_account(name, principal=self.principal)
        return Response(status=204)


class AccountLink(ApiView):
    """`/accounts/{name}/link/`."""

    @contract(Permission.CONFIGURE, "accounts", {201: LINK})
    def post(self, name: str) -> Response:
        """Make a link for one use, at which the person sets the account's password within a day."""
        path = commands.password_link(name, principal=self.principal)
        return Response(LINK.render(LinkRow(self.request.build_absolute_uri(path))), status=201)


class AccountSecondFactors(ApiView):
    """`/accounts/{name}/second-factors/`."""

    @contract(Permission.CONFIGURE, "accounts", {204: None})
    def delete(self, name: str) -> Response:
        """Reset the second factors of another account, and end its sessions."""
        commands.reset_second_factors(name, principal=self.principal)
        return Response(status=204)


class AccountTokens(ApiView):
    """`/accounts/{name}/tokens/`."""

    @contract(Permission.CONFIGURE, "accounts", {200: Paged(TOKEN)})
    def get(self, name: str) -> Response:
        """List the account's tokens that are not revoked, the newest first."""
        return self.whole(TOKEN, tokens_of(get_account(name, principal=self.principal).id))

    @contract(Permission.CONFIGURE, "accounts", {201: NEW_TOKEN}, body=TokenInput)
    def post(self, name: str) -> Response:
        """Make a token. It is shown in this answer and never again, so an Idempotency-Key is not honoured."""
        made = commands.create_account_token(name, **self.body, principal=self.principal)
        return Response(NEW_TOKEN.render(NewTokenRow(made.id, made.text)), status=201)


class AccountToken(ApiView):
    """`/accounts/{name}/tokens/{id}/`."""

    @contract(Permission.CONFIGURE, "accounts", {204: None})
    def delete(self, name: str, token_id: int) -> Response:
        """Revoke a token."""
        commands.revoke_account_token(name, token_id, principal=self.principal)
        return Response(status=204)


class AccountSessions(ApiView):
    """`/accounts/{name}/sessions/`."""

    @contract(Permission.CONFIGURE, "accounts", {200: Paged(SESSION)})
    def get(self, name: str) -> Response:
        """List the account's sessions of the dashboard, the latest first."""
        account = get_account(name, principal=self.principal)
        return self.whole(SESSION, sessions_of(account.id, own_key=self.request.session.session_key))


class AccountSession(ApiView):
    """`/accounts/{name}/sessions/{key}/`."""

    @contract(Permission.CONFIGURE, "accounts", {204: None})
    def delete(self, name: str, key: str) -> Response:
        """End a session."""
        commands.end_session(name, key, principal=self.principal)
        return Response(status=204)


class Me(ApiView):
    """`/me/`."""

    @contract(Permission.READ, "accounts", {200: CALLER})
    def get(self) -> Response:
        """Show what the caller may do, and at which addresses."""
        one = self.principal
        patterns = [list(some) for some in one.patterns if some]
        return Response(CALLER.render(Caller(one.name, one.role, sorted(one.permissions), patterns)))


urlpatterns = [
    route("accounts/", AccountList, name="api-accounts"),
    route("accounts/<str:name>/", AccountOne, name="api-account"),
    route("accounts/<str:name>/link/", AccountLink, name="api-account-link"),
    route("accounts/<str:name>/second-factors/", AccountSecondFactors, name="api-account-second-factors"),
    route("accounts/<str:name>/tokens/", AccountTokens, name="api-account-tokens"),
    route("accounts/<str:name>/tokens/<id:token_id>/", AccountToken, name="api-account-token"),
    route("accounts/<str:name>/sessions/", AccountSessions, name="api-account-sessions"),
    route("accounts/<str:name>/sessions/<slug:key>/", AccountSession, name="api-account-session"),
    route("me/", Me, name="api-me"),
]
