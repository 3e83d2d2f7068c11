"""Accounts that can own messages and failure groups, and which owners and tags messages have."""

from functools import partial

from django.contrib.auth.models import User

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.rows import bounded, fetch_values
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql

# As a filter says that a message has no owner.
NOBODY = "none"
# How many of an owner's newest messages, and of the newest that have tags, a note or an owner, completion reads.
COMPLETED_FROM = 10_000
_COMPLETED = {
    "owner": partial(
        Sql,
        """
SELECT username FROM auth_user WHERE starts_with(lower(username), lower({start})) AND EXISTS (
    SELECT FROM (SELECT message_id FROM annotation WHERE owner_id = auth_user.id AND message_id IS NOT NULL
                 ORDER BY message_id DESC LIMIT {most}) AS newest
    JOIN message m ON m.id = newest.message_id WHERE {scope}) ORDER BY 1 LIMIT {limit}
""",
    ),
    "tag": partial(
        Sql,
        """
SELECT DISTINCT tag FROM (SELECT * FROM annotation WHERE message_id IS NOT NULL
                          ORDER BY message_id DESC LIMIT {most}) AS newest
JOIN message m ON m.id = newest.message_id CROSS JOIN LATERAL unnest(tags) AS tag
WHERE {scope} AND starts_with(lower(tag), lower({start})) ORDER BY 1 LIMIT {limit}
""",
    ),
}


def account_names() -> list[str]:
    """Return the names of the accounts that can own something, in order."""
    return sorted(User.objects.filter(is_active=True, access__isnull=False).values_list("username", flat=True))


def account_id(username: str) -> int | None:
    """Return the id of the account that can own something; None where there is none of this name."""
    found = User.objects.filter(username=username, is_active=True, access__isnull=False).values_list("id", flat=True)
    return found[0] if found else None


def completions_of(field: str, start: str, *, principal: Principal, limit: int) -> list[str]:
    """Return the owners or tags of messages in scope that begin so, in any case; of the newest messages."""
    principal.require(Permission.READ)
    scope = scope_condition(principal)
    with bounded():
        return fetch_values(_COMPLETED[field](most=COMPLETED_FROM, scope=scope, start=start, limit=limit))
