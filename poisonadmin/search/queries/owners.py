"""Accounts that can own messages and failure groups, and which owners and tags messages have."""

from collections.abc import Callable
from functools import partial

from django.contrib.auth.models import User

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import bounded, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql

# As a filter says that a message has no owner.
NOBODY = "none"
# How many of the newest messages with an owner, or with tags, completion reads.
COMPLETED_FROM = 10_000
_OWNERS = partial(
    Sql,
    """
SELECT DISTINCT username FROM (SELECT * FROM message_owner ORDER BY message_id DESC LIMIT {most}) AS newest
JOIN message m ON m.id = newest.message_id JOIN auth_user ON auth_user.id = owner_id
WHERE {scope} AND starts_with(lower(username), lower({start})) ORDER BY 1 LIMIT {limit}
""",
)
_TAGS = partial(
    Sql,
    """
SELECT DISTINCT tag FROM (SELECT * FROM message_tag ORDER BY message_id DESC LIMIT {most}) AS newest
JOIN message m ON m.id = newest.message_id CROSS JOIN LATERAL unnest(tags) AS tag
WHERE {scope} AND starts_with(lower(tag), lower({start})) ORDER BY 1 LIMIT {limit}
""",
)


def account_names() -> list[str]:
    """Return the names of the accounts that can own something, in order."""
    return sorted(User.objects.filter(is_active=True, access__isnull=False).values_list("username", flat=True))


def account_id(username: str) -> int | None:
    """Return the id of the account that can own something; None where there is none of this name."""
    found = User.objects.filter(username=username, is_active=True, access__isnull=False).values_list("id", flat=True)
    return found[0] if found else None


def owners_beginning(start: str, *, principal: Principal, limit: int) -> list[str]:
    """Return the owners of messages in scope whose names begin so, in any case; of the newest messages."""
    return _beginning(_OWNERS, start, principal, limit)


def tags_beginning(start: str, *, principal: Principal, limit: int) -> list[str]:
    """Return the tags of messages in scope that begin so, in any case; of the newest messages."""
    return _beginning(_TAGS, start, principal, limit)


def _beginning(found: Callable[..., Sql], start: str, principal: Principal, limit: int) -> list[str]:
    principal.require(Permission.READ)
    with bounded():
        return fetch_values(found(most=COMPLETED_FROM, scope=scope_condition(principal), start=start, limit=limit))
