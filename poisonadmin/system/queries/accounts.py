"""Accounts and their tokens, as far as an administrator manages them; and one's own."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import fetch, known
from poisonadmin.core.queries.sql import Sql


@dataclass(frozen=True)
class AccountRow:
    """An account. `role` null: it may do nothing. `patterns` empty: it sees every address.

    `has_sign_on`: single sign-on has made it, and gives its role and addresses at each login.
    `second_factors`: `totp` and `webauthn`, those that it has. `tokens`: how many of its API tokens are in force while
    the account is open.
    """

    id: int
    name: str
    role: str | None
    patterns: list[str]
    is_active: bool
    created_at: datetime
    last_login_at: datetime | None
    has_password: bool
    has_sign_on: bool
    second_factors: list[str]
    tokens: int


@dataclass(frozen=True)
class TokenRow:
    """An API token; the token itself is kept nowhere. `scopes`: what it may do, as far as its account may."""

    id: int
    label: str
    scopes: list[str]
    patterns: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    is_expired: bool


_ACCOUNTS = """
SELECT u.id, u.username AS name, a.role, coalesce(a.address_patterns, '{{}}') AS patterns, u.is_active,
       u.date_joined AS created_at, u.last_login AS last_login_at,
       u.password <> '' AND NOT u.password LIKE '!%' AS has_password,
       EXISTS (SELECT FROM socialaccount_socialaccount WHERE user_id = u.id) AS has_sign_on,
       ARRAY(SELECT DISTINCT type::text FROM mfa_authenticator WHERE user_id = u.id AND type <> 'recovery_codes'
             ORDER BY 1) AS second_factors,
       (SELECT count(*) FROM api_token t WHERE t.user_id = u.id AND t.revoked_at IS NULL
        AND (t.expires_at IS NULL OR t.expires_at > now())) AS tokens
FROM auth_user u LEFT JOIN access a ON a.user_id = u.id WHERE {condition} ORDER BY lower(u.username), u.id
"""
_TOKENS = """
SELECT id, name AS label, scopes, address_patterns AS patterns, created_at, expires_at, last_used_at,
       coalesce(expires_at <= now(), false) AS is_expired
FROM api_token WHERE user_id = %s AND revoked_at IS NULL ORDER BY id DESC
"""


def list_accounts(*, principal: Principal) -> list[AccountRow]:
    """Return the accounts within the principal's scope by name, closed ones too. Errors: `NotAllowed`."""
    return _accounts(Sql("TRUE"), principal)


def get_account(name: str, *, principal: Principal) -> AccountRow:
    """Return an account; one that reaches beyond the principal's scope is not there. Errors: `NotAllowed`, `NotFound`.

    A principal without CONFIGURE sees none, not even its own.
    """
    found = _accounts(Sql("u.username = {name}", name=name), principal)
    return known(found[0] if found else None, f"account {name[:100]}")


def _accounts(condition: Sql, principal: Principal) -> list[AccountRow]:
    principal.require(Permission.CONFIGURE)
    rows = fetch(AccountRow, Sql(_ACCOUNTS, condition=condition))
    return [row for row in rows if principal.covers_all(row.patterns)]


def tokens_of(account_id: int) -> list[TokenRow]:
    """Return the tokens of an account that are not revoked, the newest first."""
    return fetch(TokenRow, _TOKENS, [account_id])
