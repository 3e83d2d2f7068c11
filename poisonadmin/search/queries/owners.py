"""Accounts that can own messages and failure groups, and which owners and tags messages have."""

from functools import partial

from django.contrib.auth.models import User

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.queries.rows import bounded, fetch_values
from poisonadmin.core.queries.scope import pattern_regex, scope_condition, visible_ids
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


_SHARING = """
SELECT DISTINCT who.name FROM unnest(%s::text[], %s::text[]) AS who (name, regex)
WHERE EXISTS (SELECT FROM address a WHERE a.id = ANY(%s) AND a.name || '.' ~ who.regex)
"""


def account_names(principal: Principal) -> list[str]:
    """Return the names of the accounts that who may decide can make owners, in order: all, or those that see an address
    of the principal's scope. Others are as if they were not there."""
    if not principal.may(Permission.DECIDE):
        return []
    able = User.objects.filter(is_active=True, access__isnull=False)
    found = dict(able.values_list("username", "access__address_patterns"))
    if (visible := visible_ids(principal)) is None:
        return sorted(found)
    pairs = [(one, pattern_regex(pattern)) for one, some in found.items() for pattern in some or [ANY_WORDS]]
    return sorted(fetch_values(_SHARING, [[one for one, _ in pairs], [regex for _, regex in pairs], visible]))


def account_id(username: str, principal: Principal) -> int | None:
    """Return the id of one of `account_names`; None for any other name."""
    if username not in account_names(principal):
        return None
    return User.objects.get(username=username).pk


def completions_of(field: str, start: str, *, principal: Principal, limit: int) -> list[str]:
    """Return the owners or tags of messages in scope that begin so, in any case; of the newest messages."""
    principal.require(Permission.READ)
    scope = scope_condition(principal)
    with bounded():
        return fetch_values(_COMPLETED[field](most=COMPLETED_FROM, scope=scope, start=start, limit=limit))
